#include "passes/Autodiff/Digits.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Dialect/Graph/TensorType.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace ztc {

using graph::tensorOf;

std::optional<double> splatOf(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<graph::ReshapeOp, graph::BroadcastOp>(op))
      break;
    value = op->getOperand(0);
  }
  // One element of a list of numbers, as exporters write the two values of one-hot vectors.
  int64_t place = 0;
  auto slice = value.getDefiningOp<graph::SliceOp>();
  if (slice && tensorOf(value).getNumElements() == 1 && tensorOf(slice.getX()).getRank() == 1) {
    value = slice.getX();
    place = slice.getOffsets().front();
  } else {
    slice = nullptr;
  }
  DenseElementsAttr elements;
  if (!matchPattern(value, m_Constant(&elements)) || !(elements.isSplat() || slice))
    return std::nullopt;
  if (isa<FloatType>(elements.getElementType()))
    return elements.getValues<APFloat>()[place].convertToDouble();
  return double(elements.getValues<APInt>()[place].getSExtValue());
}

std::optional<Digit> movedDigit(Digit digit, ArrayRef<int64_t> from, ArrayRef<int64_t> to, ArrayRef<int64_t> placeOf) {
  if (digit.size == 1)
    return digit;
  SmallVector<int64_t> strides(to.size(), 1);
  for (int64_t dim = int64_t(to.size()) - 2; dim >= 0; --dim)
    strides[dim] = strides[dim + 1] * to[dim + 1];
  std::optional<Digit> moved;
  int64_t stride = 1;
  for (int64_t dim = int64_t(from.size()) - 1; dim >= 0; stride *= from[dim--]) {
    const int64_t size = from[dim], place = placeOf[dim];
    const bool isWithin = digit.stride >= stride && digit.stride * digit.size <= stride * size;
    if (size == 1)
      continue;
    if (isWithin && digit.stride % stride == 0)
      return to[place] == size ? std::optional(Digit{digit.stride / stride * strides[place], digit.size})
                               : std::nullopt;
    // One of several whole dimensions, which stay neighbours.
    if (stride < digit.stride || stride * size > digit.stride * digit.size)
      continue;
    if (to[place] != size || (!moved && stride != digit.stride) ||
        (moved && strides[place] != moved->stride * moved->size))
      return std::nullopt;
    if (!moved)
      moved = Digit{strides[place], 1};
    moved->size *= size;
  }
  return moved && moved->size == digit.size ? moved : std::nullopt;
}

std::optional<Digit> repeatedDigit(Digit digit, ArrayRef<int64_t> from, ArrayRef<int64_t> to) {
  SmallVector<int64_t> places;
  for (size_t dim = 0; dim < from.size(); ++dim)
    places.push_back(int64_t(dim + to.size() - from.size()));
  return movedDigit(digit, from, to, places);
}

namespace {

/// An integer tensor by position: start + the sum of step * digit + the sum of factor * source, a source being read by
/// its own position, which are its digits. Reshaping changes nothing of it.
struct LinearForm {
  struct Source {
    Value value;
    SmallVector<Digit> digits;
    int64_t factor;
  };
  int64_t start = 0;
  SmallVector<std::pair<Digit, int64_t>> steps;
  SmallVector<Source> sources;

  void add(const LinearForm &other, int64_t factor) {
    start += factor * other.start;
    for (auto [digit, step] : other.steps) {
      auto *same = llvm::find_if(steps, [&](const auto &mine) { return mine.first == digit; });
      if (same == steps.end())
        same = &steps.emplace_back(digit, 0);
      same->second += factor * step;
    }
    llvm::erase_if(steps, [](const auto &step) { return step.second == 0; });
    for (const Source &source : other.sources) {
      auto *same = llvm::find_if(
          sources, [&](const Source &mine) { return mine.value == source.value && mine.digits == source.digits; });
      if (same == sources.end())
        sources.push_back({source.value, source.digits, factor * source.factor});
      else
        same->factor += factor * source.factor;
    }
    llvm::erase_if(sources, [](const Source &source) { return source.factor == 0; });
  }
};

SmallVector<Digit> digitsOf(RankedTensorType type) {
  SmallVector<Digit> digits;
  int64_t stride = 1;
  for (int64_t size : llvm::reverse(type.getShape())) {
    if (size > 1)
      digits.push_back({stride, size});
    stride *= size;
  }
  return digits;
}

/// Forms that are known: an op may be reached in many ways.
using LinearForms = llvm::DenseMap<Value, std::optional<LinearForm>>;

std::optional<LinearForm> makeLinearForm(Value value, LinearForms &known);

std::optional<LinearForm> linearForm(Value value, LinearForms &known) {
  if (auto found = known.find(value); found != known.end())
    return found->second;
  std::optional<LinearForm> form = makeLinearForm(value, known);
  known[value] = form;
  return form;
}

std::optional<LinearForm> makeLinearForm(Value value, LinearForms &known) {
  if (std::optional<double> splat = splatOf(value))
    return LinearForm{int64_t(*splat), {}, {}};
  Operation *op = value.getDefiningOp();
  if (auto iota = dyn_cast_or_null<graph::IotaOp>(op)) {
    LinearForm form;
    int64_t stride = 1;
    for (int64_t size : tensorOf(value).getShape().drop_front(iota.getDimension() + 1))
      stride *= size;
    const int64_t size = tensorOf(value).getDimSize(iota.getDimension());
    if (size > 1)
      form.steps.emplace_back(Digit{stride, size}, 1);
    return form;
  }
  if (isa_and_nonnull<graph::ReshapeOp>(op))
    return linearForm(op->getOperand(0), known);
  if (isa_and_nonnull<graph::BroadcastOp>(op)) {
    std::optional<LinearForm> form = linearForm(op->getOperand(0), known);
    const RankedTensorType from = tensorOf(op->getOperand(0)), to = tensorOf(value);
    auto move = [&](Digit &digit) {
      std::optional<Digit> moved = repeatedDigit(digit, from.getShape(), to.getShape());
      digit = moved.value_or(digit);
      return moved.has_value();
    };
    if (!form || !llvm::all_of(form->steps, [&](auto &step) { return move(step.first); }) ||
        !llvm::all_of(form->sources, [&](LinearForm::Source &source) { return llvm::all_of(source.digits, move); }))
      return std::nullopt;
    return form;
  }
  if (isa_and_nonnull<graph::AddOp, graph::SubOp>(op)) {
    std::optional<LinearForm> a = linearForm(op->getOperand(0), known), b = linearForm(op->getOperand(1), known);
    if (!a || !b)
      return std::nullopt;
    a->add(*b, isa<graph::AddOp>(op) ? 1 : -1);
    return a;
  }
  if (isa_and_nonnull<graph::MulOp>(op))
    for (unsigned factor : {0u, 1u})
      if (std::optional<double> splat = splatOf(op->getOperand(factor))) {
        std::optional<LinearForm> other = linearForm(op->getOperand(1 - factor), known);
        LinearForm product;
        if (other)
          product.add(*other, int64_t(*splat));
        return other ? std::optional(product) : std::nullopt;
      }
  return LinearForm{0, {}, {{value, digitsOf(tensorOf(value)), 1}}};
}

} // namespace

std::optional<RowIndices> rowIndices(Value indices, int64_t elements) {
  LinearForms known;
  std::optional<LinearForm> form = linearForm(indices, known);
  if (!form || form->start != 0 || form->sources.size() != 1 || form->sources.front().factor != 1)
    return std::nullopt;
  const int64_t all = tensorOf(form->sources.front().value).getNumElements();
  // Element p is in row p / perToken, whose elements begin at count times that.
  llvm::sort(form->steps, [](const auto &a, const auto &b) { return a.first.stride < b.first.stride; });
  const bool isOneRow = form->steps.empty();
  const int64_t perToken = isOneRow ? all : form->steps.front().first.stride;
  const int64_t count = isOneRow ? elements : form->steps.front().second;
  int64_t next = perToken;
  for (auto [digit, step] : form->steps) {
    if (digit.stride != next || step * perToken != count * digit.stride)
      return std::nullopt;
    next *= digit.size;
  }
  if (next != all || perToken == 0 || count <= 0 || all / perToken * count != elements)
    return std::nullopt;
  return RowIndices{form->sources.front().value, all / perToken, perToken, count};
}

std::optional<Digit> countedDigit(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op || op->getNumResults() != 1)
    return std::nullopt;
  ArrayRef<int64_t> shape = tensorOf(value).getShape();
  if (auto iota = dyn_cast<graph::IotaOp>(op)) {
    int64_t stride = 1;
    for (int64_t size : shape.drop_front(iota.getDimension() + 1))
      stride *= size;
    return Digit{stride, shape[iota.getDimension()]};
  }
  if (auto constant = dyn_cast<graph::ConstantOp>(op)) {
    auto elements = dyn_cast<DenseIntElementsAttr>(constant.getValue());
    if (!elements || elements.isSplat())
      return std::nullopt;
    for (auto [place, number] : llvm::enumerate(elements.getValues<APInt>()))
      if (number.getSExtValue() != int64_t(place))
        return std::nullopt;
    return Digit{1, elements.getNumElements()};
  }
  if (isa<graph::CastOp, graph::ReshapeOp>(op))
    return countedDigit(op->getOperand(0));
  if (auto broadcast = dyn_cast<graph::BroadcastOp>(op))
    if (std::optional<Digit> digit = countedDigit(broadcast.getX()))
      return repeatedDigit(*digit, tensorOf(broadcast.getX()).getShape(), shape);
  return std::nullopt;
}

std::optional<Digit> countedDownDigit(Value value, double end) {
  if (auto difference = value.getDefiningOp<graph::SubOp>())
    return splatOf(difference.getA()) == end ? countedDigit(difference.getB()) : std::nullopt;
  if (auto reshape = value.getDefiningOp<graph::ReshapeOp>())
    return countedDownDigit(reshape.getX(), end);
  if (auto broadcast = value.getDefiningOp<graph::BroadcastOp>())
    if (std::optional<Digit> digit = countedDownDigit(broadcast.getX(), end))
      return repeatedDigit(*digit, tensorOf(broadcast.getX()).getShape(), tensorOf(value).getShape());
  return std::nullopt;
}

} // namespace ztc
