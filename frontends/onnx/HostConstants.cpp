#include "frontends/onnx/HostConstants.h"
#include <algorithm>
#include <limits>

using namespace mlir;

namespace ztc::importer {
namespace {

/// Tensors of fewer dimensions are stored as they are: tables are matched by the raising of idioms.
constexpr size_t kLeastRank = 3;

/// The elements with each leading dimension dropped to 1 along which they repeat; `shape` follows.
template <typename Element>
std::vector<Element> withoutRepetition(std::vector<Element> elements, SmallVectorImpl<int64_t> &shape) {
  for (size_t d = 0; shape.size() >= kLeastRank && d + 2 < shape.size(); ++d) {
    int64_t inner = 1, outer = 1, count = shape[d];
    for (size_t i = 0; i < shape.size(); ++i)
      (i < d ? outer : inner) *= i == d ? 1 : shape[i];
    auto slab = [&](int64_t o, int64_t c) { return elements.begin() + (o * count + c) * inner; };
    bool repeats = count > 1;
    for (int64_t o = 0; o < outer && repeats; ++o)
      for (int64_t c = 1; c < count && repeats; ++c)
        repeats = std::equal(slab(o, 0), slab(o, 0) + inner, slab(o, c));
    if (!repeats)
      continue;
    std::vector<Element> kept;
    kept.reserve(outer * inner);
    for (int64_t o = 0; o < outer; ++o)
      kept.insert(kept.end(), slab(o, 0), slab(o, 0) + inner);
    elements = std::move(kept);
    shape[d] = 1;
  }
  return elements;
}

int32_t nearest(int64_t value) {
  return int32_t(std::clamp<int64_t>(value, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()));
}

} // namespace

Value constantOf(OpBuilder &builder, Location loc, const HostTensor &tensor, ArrayRef<int64_t> shape) {
  SmallVector<int64_t> stored(shape);
  auto emit = [&](Type element, auto attributeOf) -> Value {
    auto type = RankedTensorType::get(stored, element);
    return broadcastTo(builder, loc, graph::ConstantOp::create(builder, loc, type, attributeOf(type)), shape);
  };
  if (tensor.storage() == HostTensor::Storage::Reals) {
    auto elements = withoutRepetition(std::vector<float>(tensor.reals.begin(), tensor.reals.end()), stored);
    return emit(builder.getF32Type(),
                [&](auto type) { return DenseElementsAttr::get(type, ArrayRef<float>(elements)); });
  }
  if (tensor.storage() == HostTensor::Storage::Integers) {
    std::vector<int32_t> narrow(tensor.integers.size());
    llvm::transform(tensor.integers, narrow.begin(), nearest);
    auto elements = withoutRepetition(std::move(narrow), stored);
    return emit(builder.getI32Type(),
                [&](auto type) { return DenseElementsAttr::get(type, ArrayRef<int32_t>(elements)); });
  }
  auto elements = withoutRepetition(std::vector<char>(tensor.bits.begin(), tensor.bits.end()), stored);
  SmallVector<bool> bits(elements.begin(), elements.end());
  return emit(builder.getI1Type(), [&](auto type) { return DenseElementsAttr::get(type, ArrayRef<bool>(bits)); });
}

} // namespace ztc::importer
