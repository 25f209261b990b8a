// x * cos + rotate_half(x) * sin becomes rope, with tables (S, D/2): the exporters' tables hold each half twice.
#include "frontends/onnx/Raise.h"

using namespace mlir;

namespace ztc::importer {
namespace {

/// A constant (., ., ., D) that varies with the sequence only: `sequenceDim` 1 or 2 of x.
struct Table {
  DenseElementsAttr elements;
  SmallVector<int64_t> shape;
};

std::optional<Table> tableOf(Value value) {
  if (auto broadcast = value.getDefiningOp<graph::BroadcastOp>())
    value = broadcast.getX();
  auto constant = value.getDefiningOp<graph::ConstantOp>();
  auto elements = constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : DenseElementsAttr();
  if (!elements || !elements.getElementType().isF32() || typeOf(value).getRank() > 4)
    return std::nullopt;
  Table table{elements, SmallVector<int64_t>(4 - typeOf(value).getRank(), 1)};
  table.shape.append(shapeOf(value).begin(), shapeOf(value).end());
  return table;
}

/// The first halves of a table's rows, (S, D/2); none where the two halves or rows of the batch differ.
std::optional<std::vector<float>> halves(const Table &table, int64_t sequence, int64_t width) {
  int64_t batches = table.shape[0];
  std::vector<float> half;
  auto value = table.elements.isSplat()
                   ? std::vector<float>(batches * sequence * width, table.elements.getSplatValue<float>())
                   : std::vector<float>(table.elements.value_begin<float>(), table.elements.value_end<float>());
  if (int64_t(value.size()) != batches * sequence * width)
    return std::nullopt;
  for (int64_t b = 0; b < batches; ++b)
    for (int64_t s = 0; s < sequence; ++s)
      for (int64_t d = 0; d < width / 2; ++d) {
        float first = value[(b * sequence + s) * width + d], second = value[(b * sequence + s) * width + d + width / 2];
        if (first != second || (b > 0 && first != half[s * (width / 2) + d]))
          return std::nullopt;
        if (b == 0)
          half.push_back(first);
      }
  return half;
}

/// x where `value` is rotate_half(x) = [-x2 | x1], or its opposite [x2 | -x1], which turns the other way.
Value rotated(Value value, bool &inverse) {
  auto concat = value.getDefiningOp<graph::ConcatOp>();
  int64_t last = typeOf(value).getRank() - 1;
  if (!concat || concat.getInputs().size() != 2 || int64_t(concat.getAxis()) != last)
    return nullptr;
  auto negations =
      llvm::map_to_vector<2>(concat.getInputs(), [](Value input) { return input.getDefiningOp<graph::NegOp>(); });
  if (!negations[0] == !negations[1])
    return nullptr;
  inverse = !negations[0];
  auto sliceOf = [&](unsigned i) {
    return (negations[i] ? negations[i].getX() : concat.getInputs()[i]).getDefiningOp<graph::SliceOp>();
  };
  graph::SliceOp second = sliceOf(0), first = sliceOf(1);
  if (!first || !second || first.getX() != second.getX())
    return nullptr;
  Value x = first.getX();
  int64_t width = shapeOf(x).back();
  SmallVector<int64_t> zero(last + 1, 0), half(zero), sizes(shapeOf(x));
  half[last] = width / 2;
  sizes[last] = width / 2;
  bool fits = width % 2 == 0 && first.getOffsets() == ArrayRef<int64_t>(zero) &&
              second.getOffsets() == ArrayRef<int64_t>(half) && shapeOf(first) == ArrayRef<int64_t>(sizes) &&
              shapeOf(second) == ArrayRef<int64_t>(sizes);
  return fits ? x : Value();
}

class Raiser {
public:
  explicit Raiser(func::FuncOp function) : function(function) {}

  Value match(OpBuilder &builder, graph::AddOp sum) {
    Value result;
    eitherOrder(sum, [&](Value straight, Value turned) {
      auto a = straight.getDefiningOp<graph::MulOp>(), b = turned.getDefiningOp<graph::MulOp>();
      if (!a || !b || typeOf(sum).getRank() != 4)
        return false;
      return eitherOrder(b, [&](Value rotation, Value sine) {
        bool inverse = false;
        Value x = rotated(rotation, inverse);
        return x && eitherOrder(a, [&](Value operand, Value cosine) {
                 if (operand != x)
                   return false;
                 result = emit(builder, sum.getLoc(), x, cosine, sine, inverse);
                 return result != nullptr;
               });
      });
    });
    return result;
  }

private:
  Value emit(OpBuilder &builder, Location loc, Value x, Value cosine, Value sine, bool inverse) {
    std::optional<Table> cosTable = tableOf(cosine), sinTable = tableOf(sine);
    if (!cosTable || !sinTable || cosTable->shape[3] != shapeOf(x)[3] || sinTable->shape[3] != shapeOf(x)[3])
      return nullptr;
    for (int64_t sequenceDim : {2, 1}) { // (B, H, S, D) or (B, S, H, D)
      int64_t sequence = shapeOf(x)[sequenceDim], otherDim = 3 - sequenceDim;
      auto fits = [&](const Table &t) { return t.shape[sequenceDim] == sequence && t.shape[otherDim] == 1; };
      if (!fits(*cosTable) || !fits(*sinTable))
        continue;
      Value cos = tableValue(*cosTable, sequence), sin = tableValue(*sinTable, sequence);
      if (!cos || !sin)
        return nullptr;
      if (sequenceDim == 1)
        return graph::RopeOp::create(builder, loc, x, cos, sin, inverse);
      Value turned = graph::RopeOp::create(builder, loc, transposeTo(builder, loc, x, {0, 2, 1, 3}), cos, sin, inverse);
      return transposeTo(builder, loc, turned, {0, 2, 1, 3});
    }
    return nullptr;
  }

  /// The (S, D/2) constant, one for all layers.
  Value tableValue(const Table &table, int64_t sequence) {
    Value &known = tables[table.elements];
    if (known)
      return known;
    int64_t width = table.shape[3];
    std::optional<std::vector<float>> half = halves(table, sequence, width);
    if (!half)
      return nullptr;
    OpBuilder front = OpBuilder::atBlockBegin(&function.getBody().front());
    auto type = RankedTensorType::get({sequence, width / 2}, front.getF32Type());
    return known = graph::ConstantOp::create(front, front.getUnknownLoc(), type,
                                             DenseElementsAttr::get(type, ArrayRef<float>(*half)));
  }

  func::FuncOp function;
  llvm::DenseMap<mlir::Attribute, Value> tables;
};

} // namespace

unsigned raiseRope(func::FuncOp function) {
  Raiser raiser(function);
  return forEachOp<graph::AddOp>(function,
                                 [&](OpBuilder &builder, graph::AddOp sum) { return raiser.match(builder, sum); });
}

} // namespace ztc::importer
