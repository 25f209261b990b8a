#include "frontends/onnx/HostTensor.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/Support/MathExtras.h"
#include <cmath>
#include <cstring>

using llvm::ArrayRef;

namespace ztc::importer {

int64_t countOf(ArrayRef<int64_t> shape) {
  int64_t product = 1;
  for (int64_t size : shape)
    product *= size;
  return product;
}

std::optional<int64_t> checkedCount(ArrayRef<int64_t> shape) {
  int64_t product = 1;
  for (int64_t size : shape)
    if (size < 0 || llvm::MulOverflow(product, std::max<int64_t>(size, 1), product))
      return std::nullopt;
  return llvm::is_contained(shape, 0) ? 0 : product;
}

int64_t wrapTo(int64_t value, ElementType type) {
  switch (type) {
  case ElementType::I8:
    return int8_t(value);
  case ElementType::U8:
    return uint8_t(value);
  case ElementType::I16:
    return int16_t(value);
  case ElementType::U16:
    return uint16_t(value);
  case ElementType::I32:
    return int32_t(value);
  case ElementType::U32:
    return uint32_t(value);
  default:
    return value;
  }
}

HostTensor::HostTensor(ElementType type, Shape shape) : type(type), shape(std::move(shape)) {
  size_t n = static_cast<size_t>(count());
  switch (storage()) {
  case Storage::Reals:
    reals.resize(n);
    break;
  case Storage::Integers:
    integers.resize(n);
    break;
  case Storage::Bits:
    bits.resize(n);
    break;
  }
}

int64_t HostTensor::count() const {
  return countOf(shape);
}

double HostTensor::real(int64_t index) const {
  switch (storage()) {
  case Storage::Reals:
    return reals[index];
  case Storage::Integers:
    return type == ElementType::U64 ? static_cast<double>(static_cast<uint64_t>(integers[index]))
                                    : static_cast<double>(integers[index]);
  case Storage::Bits:
    return bits[index];
  }
  return 0;
}

int64_t HostTensor::integer(int64_t index) const {
  switch (storage()) {
  case Storage::Reals: // toward zero, and no undefined conversion
    if (!(std::fabs(reals[index]) < 9.2e18))
      return reals[index] > 0 ? INT64_MAX : INT64_MIN;
    return static_cast<int64_t>(reals[index]);
  case Storage::Integers:
    return integers[index];
  case Storage::Bits:
    return bits[index];
  }
  return 0;
}

void HostTensor::setReal(int64_t index, double value) {
  if (storage() == Storage::Reals) {
    reals[index] = roundTo(value, type);
    return;
  }
  HostTensor single(ElementType::F64, {1});
  single.reals[0] = value;
  setFrom(index, single, 0);
}

void HostTensor::setInteger(int64_t index, int64_t value) {
  if (storage() == Storage::Reals)
    reals[index] = roundTo(static_cast<double>(value), type);
  else if (storage() == Storage::Bits)
    bits[index] = value != 0;
  else
    integers[index] = wrapTo(value, type);
}

void HostTensor::setFrom(int64_t index, const HostTensor &from, int64_t fromIndex) {
  if (storage() == Storage::Reals)
    reals[index] = from.type == type ? from.reals[fromIndex] : roundTo(from.real(fromIndex), type);
  else if (from.storage() != Storage::Reals)
    setInteger(index, from.integer(fromIndex));
  else if (storage() == Storage::Bits)
    bits[index] = from.reals[fromIndex] != 0;
  else if (type == ElementType::U64 && from.reals[fromIndex] >= 9.2e18 && from.reals[fromIndex] < 1.8446744073709552e19)
    integers[index] = static_cast<int64_t>(static_cast<uint64_t>(from.reals[fromIndex]));
  else
    setInteger(index, from.integer(fromIndex));
}

bool HostTensor::isSplat() const {
  if (count() == 0)
    return false;
  for (int64_t i = 1, n = count(); i < n; ++i) {
    if (storage() == Storage::Reals ? std::memcmp(&reals[i], &reals[0], sizeof(double)) != 0 : integer(i) != integer(0))
      return false;
  }
  return true;
}

HostTensor HostTensor::ofIntegers(ArrayRef<int64_t> values) {
  HostTensor tensor(ElementType::I64, {int64_t(values.size())});
  tensor.integers.assign(values.begin(), values.end());
  return tensor;
}

namespace {
template <typename Stored> Stored load(const char *bytes, int64_t index) {
  Stored value;
  std::memcpy(&value, bytes + index * int64_t(sizeof(Stored)), sizeof(Stored));
  return value;
}

double decodeHalf(uint16_t bits, const llvm::fltSemantics &semantics) {
  llvm::APFloat value(semantics, llvm::APInt(16, bits));
  bool inexact;
  value.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &inexact);
  return value.convertToDouble();
}
} // namespace

HostTensor HostTensor::fromBytes(const Initializer &initializer, llvm::StringRef elements) {
  HostTensor tensor(initializer.type, initializer.shape);
  const char *bytes = elements.data();
  for (int64_t i = 0, n = tensor.count(); i < n; ++i) {
    switch (initializer.type) {
    case ElementType::F32:
      tensor.reals[i] = load<float>(bytes, i);
      break;
    case ElementType::F64:
      tensor.reals[i] = load<double>(bytes, i);
      break;
    case ElementType::F16:
      tensor.reals[i] = decodeHalf(load<uint16_t>(bytes, i), llvm::APFloat::IEEEhalf());
      break;
    case ElementType::BF16:
      tensor.reals[i] = decodeHalf(load<uint16_t>(bytes, i), llvm::APFloat::BFloat());
      break;
    case ElementType::Bool:
      tensor.bits[i] = load<uint8_t>(bytes, i) != 0;
      break;
    case ElementType::U8:
      tensor.integers[i] = load<uint8_t>(bytes, i);
      break;
    case ElementType::I8:
      tensor.integers[i] = load<int8_t>(bytes, i);
      break;
    case ElementType::U16:
      tensor.integers[i] = load<uint16_t>(bytes, i);
      break;
    case ElementType::I16:
      tensor.integers[i] = load<int16_t>(bytes, i);
      break;
    case ElementType::U32:
      tensor.integers[i] = load<uint32_t>(bytes, i);
      break;
    case ElementType::I32:
      tensor.integers[i] = load<int32_t>(bytes, i);
      break;
    default:
      tensor.integers[i] = load<int64_t>(bytes, i);
      break;
    }
  }
  return tensor;
}

double roundTo(double value, ElementType type) {
  if (type == ElementType::F64)
    return value;
  if (type == ElementType::F32)
    return static_cast<float>(value);
  llvm::APFloat narrow(value);
  bool inexact;
  narrow.convert(type == ElementType::F16 ? llvm::APFloat::IEEEhalf() : llvm::APFloat::BFloat(),
                 llvm::APFloat::rmNearestTiesToEven, &inexact);
  narrow.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &inexact);
  return narrow.convertToDouble();
}

bool broadcastShape(ArrayRef<int64_t> a, ArrayRef<int64_t> b, Shape &result) {
  size_t rank = std::max(a.size(), b.size());
  result.assign(rank, 1);
  for (size_t i = 0; i < rank; ++i) { // from the right
    int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1, y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1)
      return false;
    result[rank - 1 - i] = x == 1 ? y : x;
  }
  return true;
}

Shape broadcastStrides(ArrayRef<int64_t> from, ArrayRef<int64_t> to) {
  Shape strides(to.size(), 0);
  int64_t stride = 1;
  for (size_t i = 0; i < from.size(); ++i) {
    int64_t size = from[from.size() - 1 - i];
    if (size != 1)
      strides[to.size() - 1 - i] = stride;
    stride *= size;
  }
  return strides;
}

} // namespace ztc::importer
