#include "runtime/Checkpoint/TensorReader.h"
#include "runtime/Core/FloatTypes.h"
#include "runtime/Core/Sizes.h"
#include "runtime/Format/PlanValidator.h"
#include <algorithm>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

namespace ztc {

StoredTensor dequantized(std::shared_ptr<const QuantizedMatrix> matrix) {
  StoredTensor tensor{matrix->data};
  tensor.quantized = std::move(matrix);
  return tensor;
}

bool isLoadable(plan::DataType type) {
  return type == plan::F32 || type == plan::BF16 || type == plan::F16 || type == plan::F64;
}

namespace {
// Each knows how one stored element becomes an f32. Files leave tensors unaligned: hence memcpy.
struct FromF32 {
  static constexpr uint64_t kBytes = 4;
  static float load(const std::byte *p) {
    float value;
    std::memcpy(&value, p, 4);
    return value;
  }
};
struct FromF64 {
  static constexpr uint64_t kBytes = 8;
  static float load(const std::byte *p) {
    double value;
    std::memcpy(&value, p, 8);
    return static_cast<float>(value);
  }
};
struct FromBf16 {
  static constexpr uint64_t kBytes = 2;
  static float load(const std::byte *p) {
    uint16_t bits;
    std::memcpy(&bits, p, 2);
    return fromBf16(bits);
  }
};
struct FromF16 {
  static constexpr uint64_t kBytes = 2;
  static float load(const std::byte *p) {
    uint16_t bits;
    std::memcpy(&bits, p, 2);
    return fromF16(bits);
  }
};
} // namespace

/// Element (r, c) stands at c * rows + r. Whole rows are read in strips of stored rows that share cache lines.
template <typename Type>
static void readTransposed(const StoredTensor &tensor, uint64_t begin, uint64_t count, float *out) {
  constexpr uint64_t kStrip = 16;
  const uint64_t end = begin + count, columns = tensor.columns;
  const uint64_t firstRow = begin / columns, lastRow = (end - 1) / columns;
  for (uint64_t strip = firstRow; strip <= lastRow; strip += kStrip) {
    const uint64_t stripEnd = std::min(strip + kStrip, lastRow + 1);
    for (uint64_t c = 0; c < columns; ++c)
      for (uint64_t r = strip; r < stripEnd; ++r) {
        const uint64_t index = r * columns + c;
        if (index >= begin && index < end)
          out[index - begin] = Type::load(tensor.data.data() + (c * tensor.rows + r) * Type::kBytes);
      }
  }
}

template <typename Type> static void read(const StoredTensor &tensor, uint64_t begin, uint64_t count, float *out) {
  if (count == 0)
    return;
  if (tensor.transposed)
    return readTransposed<Type>(tensor, begin, count, out);
  const std::byte *from = tensor.data.data() + begin * Type::kBytes;
  for (uint64_t i = 0; i < count; ++i)
    out[i] = Type::load(from + i * Type::kBytes);
}

void readElements(const StoredTensor &tensor, uint64_t begin, uint64_t count, float *out) {
  if (tensor.quantized)
    return tensor.quantized->read(begin, count, out);
  switch (tensor.type) {
  case plan::F64:
    return read<FromF64>(tensor, begin, count, out);
  case plan::BF16:
    return read<FromBf16>(tensor, begin, count, out);
  case plan::F16:
    return read<FromF16>(tensor, begin, count, out);
  default:
    return read<FromF32>(tensor, begin, count, out);
  }
}

void forgetElements(const StoredTensor &tensor, uint64_t begin, uint64_t count) {
  // A transposed range has read a little of every page: they go when the last element has been read. So do codes.
  const QuantizedMatrix *quantized = tensor.quantized.get();
  const uint64_t elements = quantized ? quantized->elements() : tensor.rows * tensor.columns;
  const bool atOnce = tensor.transposed || quantized;
  if (atOnce && begin + count < elements)
    return;
  const uint64_t bytes = dataTypeBytes(tensor.type);
  const auto address = reinterpret_cast<uintptr_t>(tensor.data.data());
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const uint64_t from = atOnce ? 0 : begin * bytes, to = atOnce ? tensor.data.size() : (begin + count) * bytes;
  const uint64_t first = roundUp(address + from, page), last = (address + to) / page * page;
  if (first < last)
    ::madvise(reinterpret_cast<void *>(first), last - first, MADV_DONTNEED); // NOLINT: an address that was rounded
}

} // namespace ztc
