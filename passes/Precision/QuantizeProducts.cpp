#include "compiler/Analysis/Recomputation.h"
#include "compiler/Dialect/Dist/Fp8.h"
#include "compiler/Dialect/Graph/Expr.h"
#include "compiler/Dialect/Graph/Fp8.h"
#include "compiler/Dialect/Graph/Roles.h"
#include "passes/Precision/Passes.h"
#include "passes/Precision/ScaledMatrices.h"
#include "llvm/ADT/MapVector.h"
#include <array>
#include <limits>
#include <map>
#include <tuple>

#define DEBUG_TYPE "ztc-quantize-products"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_QUANTIZEPRODUCTS
#include "passes/Precision/Passes.h.inc"

namespace {

/// What stands at the end of moves of a value's elements: a parameter, or a bucket of them, or an activation.
Value unmoved(Value value) {
  while (isa_and_nonnull<graph::ReshapeOp, graph::TransposeOp, graph::SliceOp, dist::ViewOp>(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  return value;
}

/// A weight by its place: several views of a bucket are one.
std::tuple<void *, int64_t, const void *> placeOf(Value weight) {
  const void *type = weight.getType().getAsOpaquePointer();
  if (auto view = weight.getDefiningOp<dist::ViewOp>())
    return {view.getBucket().getAsOpaquePointer(), int64_t(view.getOffset()), type};
  return {weight.getAsOpaquePointer(), 0, type};
}

/// One operand of a product: the matrix, and whether the summed dimension is its last.
struct Factor {
  Value matrix;
  bool byRows;
};

/// The codes of a matrix that products read, in the orders in which they do.
struct Codes {
  bool byRows = false, byColumns = false;
  Operation *first = nullptr; ///< the first reader
  Type format;
  Value scale = {}, rows = {}, columns = {}; ///< once they are made
  Value known = {}, amax = {}; ///< where scales are delayed: that of the step before, and this step's absolute maximum
};

class ProductQuantizer {
public:
  explicit ProductQuantizer(func::FuncOp microstep)
      : function(microstep), lossOp(lossOpOf(microstep)), builder(microstep.getContext()),
        weightFormat(Float8E4M3FNType::get(microstep.getContext())),
        isDelayed(microstep->getParentOfType<ModuleOp>()->hasAttr(graph::kDelayedScaling)) {}

  /// Whether there was a product in fp8.
  bool run() {
    SmallVector<graph::MatmulOp> products;
    for (auto product : function.getBody().front().getOps<graph::MatmulOp>())
      if (auto format = product->getAttrOfType<TypeAttr>(graph::kFp8)) {
        products.push_back(product);
        gradientFormat = format.getValue();
      }
    for (graph::MatmulOp product : products)
      for (Factor factor : factorsOf(product))
        note(factor, product);
    if (isDelayed && !codes.empty())
      readScales(namesOfMatrices(products));
    // Codes are found by what the graph reads now: what stands in its place comes last.
    SmallVector<Value> scaled;
    for (graph::MatmulOp product : products)
      scaled.push_back(multiply(product));
    for (auto [product, value] : llvm::zip_equal(products, scaled)) {
      product.replaceAllUsesWith(value);
      product.erase();
    }
    if (isDelayed && !codes.empty()) {
      returnMaxima();
      rememberMaxima();
    }
    return !products.empty();
  }

private:
  std::array<Factor, 2> factorsOf(graph::MatmulOp product) const {
    return {Factor{product.getA(), !product.getTransposeA()}, Factor{product.getB(), product.getTransposeB()}};
  }

  bool isParameter(Value value) const { return isa<BlockArgument>(unmoved(value)); }

  /// Cotangents are what the backward part computes.
  bool isCotangent(Value value) const {
    Operation *source = unmoved(value).getDefiningOp();
    return source && lossOp && (source == lossOp || lossOp->isBeforeInBlock(source));
  }

  Type formatOf(Value value) const { return isCotangent(value) ? gradientFormat : weightFormat; }

  void note(Factor factor, Operation *reader) {
    if (isParameter(factor.matrix))
      return;
    Codes &wanted = codes[factor.matrix];
    wanted.byRows |= factor.byRows;
    wanted.byColumns |= !factor.byRows;
    if (!wanted.first)
      wanted.first = reader;
    wanted.format = formatOf(factor.matrix);
  }

  /// The absolute maxima of a weight's rows, in front of its first product: all of its codes have the scale that they
  /// give.
  Value amaxOf(Value weight, Operation *reader) {
    Value &known = amax[placeOf(weight)];
    if (!known) {
      auto type = cast<RankedTensorType>(weight.getType());
      builder.setInsertionPoint(reader);
      known = graph::RowAmaxOp::create(builder, reader->getLoc(),
                                       RankedTensorType::get({type.getDimSize(0), 1}, type.getElementType()), weight);
    }
    return known;
  }

  /// Codes of an activation are made once, in front of their first reader; those of a weight in front of each.
  /// Where scales are delayed those of activations are what the step before gives.
  void make(Codes &wanted, Value matrix, bool isWeight) {
    auto type = cast<RankedTensorType>(matrix.getType());
    const bool isKnown = isDelayed && !isWeight;
    SmallVector<Type> results{RankedTensorType::get({isKnown ? 1 : 2}, builder.getF32Type())};
    if (wanted.byRows)
      results.push_back(RankedTensorType::get(type.getShape(), wanted.format));
    if (wanted.byColumns)
      results.push_back(RankedTensorType::get({type.getDimSize(1), type.getDimSize(0)}, wanted.format));
    Value given = isWeight ? amaxOf(matrix, wanted.first) : Value();
    builder.setInsertionPoint(wanted.first);
    const Location loc = wanted.first->getLoc();
    const auto flag = [&](bool is) { return is ? builder.getUnitAttr() : UnitAttr(); };
    const UnitAttr byRows = flag(wanted.byRows), byColumns = flag(wanted.byColumns);
    SmallVector<Value> made;
    if (isKnown) {
      auto op = graph::EncodeFp8Op::create(builder, loc, results, matrix, wanted.known, byRows, byColumns);
      wanted.scale = wanted.known;
      wanted.amax = op.getAmax();
      made = op.getCodes();
    } else {
      auto op = graph::QuantizeFp8Op::create(builder, loc, results, matrix, given, byRows, byColumns, flag(isWeight));
      wanted.scale = op.getScale();
      made = op.getCodes();
    }
    wanted.rows = wanted.byRows ? made.front() : Value();
    wanted.columns = wanted.byColumns ? made.back() : Value();
  }

  RankedTensorType recordsType() {
    return RankedTensorType::get({int64_t(codes.size() * kFp8ScaleRecord)}, builder.getF32Type());
  }

  /// What checkpoints know the matrices by.
  ArrayAttr namesOfMatrices(ArrayRef<graph::MatmulOp> products) {
    ScaledMatrices matrices(function);
    for (graph::MatmulOp product : products)
      for (auto [matrix, weight] : {std::pair(product.getA(), product.getB()), {product.getB(), product.getA()}})
        if (isParameter(weight) && !isParameter(matrix))
          matrices.addReader(matrix, isCotangent(matrix), weight);
    for (graph::MatmulOp product : products)
      if (Value a = product.getA(), b = product.getB(); !isParameter(a) && !isParameter(b))
        matrices.addGradient(a, isCotangent(a), b, isCotangent(b));
    SmallVector<Attribute> names;
    for (auto &[matrix, wanted] : codes)
      names.push_back(matrices.namesOf(matrix));
    return builder.getArrayAttr(names);
  }

  /// The scale of each matrix, from what @microstep is told of the step before.
  void readScales(ArrayAttr names) {
    const unsigned index = function.getNumArguments();
    (void)function.insertArgument(index, recordsType(),
                                  named(graph::namedRole(builder.getContext(), graph::Role::State), graph::kFp8Amax),
                                  function.getLoc());
    function.setArgAttr(index, graph::kFp8Names, names);
    SmallVector<float> largest;
    for (auto &[matrix, wanted] : codes)
      largest.push_back(largestFp8(isa<Float8E4M3FNType>(wanted.format) ? Fp8Format::E4m3 : Fp8Format::E5m2));
    builder.setInsertionPointToStart(&function.getBody().front());
    const auto table = RankedTensorType::get({int64_t(largest.size())}, builder.getF32Type());
    Value formats =
        graph::ConstantOp::create(builder, function.getLoc(), DenseElementsAttr::get(table, ArrayRef<float>(largest)));
    Value scales =
        graph::Fp8ScalesOp::create(builder, function.getLoc(), recordsType(), function.getArgument(index), formats);
    for (auto [number, entry] : llvm::enumerate(codes))
      entry.second.known =
          graph::SliceOp::create(builder, function.getLoc(), RankedTensorType::get({2}, builder.getF32Type()), scales,
                                 builder.getDenseI64ArrayAttr(int64_t(number * kFp8ScaleRecord)));
  }

  /// @microstep gives the absolute maximum of each matrix, at the places where the scales stand.
  void returnMaxima() {
    Operation *terminator = function.getBody().front().getTerminator();
    SmallVector<Value> parts;
    SmallVector<int64_t> offsets;
    for (auto [number, entry] : llvm::enumerate(codes)) {
      parts.push_back(entry.second.amax);
      offsets.push_back(int64_t(number * kFp8ScaleRecord));
    }
    builder.setInsertionPoint(terminator);
    Value maxima =
        dist::PackOp::create(builder, function.getLoc(), recordsType(), parts, builder.getDenseI64ArrayAttr(offsets));
    addResult(function, maxima, graph::kFp8Maxima);
  }

  /// @update makes of them what the next step is told. Of a matrix whose maximum is 0, or is not finite, the one before
  /// stays.
  void rememberMaxima() {
    func::FuncOp update = graph::findEntry(function->getParentOfType<ModuleOp>(), graph::Entry::Update);
    if (!update)
      return;
    for (StringRef state : {graph::kFp8Maxima, graph::kFp8Amax})
      (void)update.insertArgument(update.getNumArguments(), recordsType(),
                                  named(graph::namedRole(builder.getContext(), graph::Role::State), state),
                                  update.getLoc());
    Value maxima = update.getArguments().drop_back().back(), known = update.getArguments().back();
    builder.setInsertionPoint(update.getBody().front().getTerminator());
    if (function->getParentOfType<ModuleOp>()->hasAttr(dist::kZero))
      maxima = dist::AllReduceMaxOp::create(builder, update.getLoc(), recordsType(), maxima, dist::kDataAxis);
    graph::Expr x(builder, update.getLoc(), maxima);
    graph::Expr isNumber = (x > zeroLike(x)) & (x <= constantLike(x, std::numeric_limits<float>::max()));
    addResult(update, select(isNumber, x, x.with(known)).value(), graph::kFp8Amax);
  }

  DictionaryAttr named(NamedAttribute what, StringRef state) {
    return builder.getDictionaryAttr({what, builder.getNamedAttr(graph::kState, builder.getStringAttr(state))});
  }

  void addResult(func::FuncOp of, Value value, StringRef state) {
    Operation *terminator = of.getBody().front().getTerminator();
    SmallVector<DictionaryAttr> attributes;
    for (unsigned i = 0; i < of.getNumResults(); ++i)
      attributes.push_back(of.getResultAttrDict(i));
    attributes.push_back(named(graph::namedResult(builder.getContext(), graph::ResultKind::State), state));
    terminator->insertOperands(terminator->getNumOperands(), value);
    of.setFunctionType(builder.getFunctionType(of.getArgumentTypes(), terminator->getOperandTypes()));
    of.setAllResultAttrs(attributes);
  }

  Codes made(Factor factor, Operation *reader) {
    if (isParameter(factor.matrix)) {
      Codes own{factor.byRows, !factor.byRows, reader, weightFormat};
      make(own, factor.matrix, /*isWeight=*/true);
      return own;
    }
    Codes &known = codes[factor.matrix];
    if (!known.scale)
      make(known, factor.matrix, /*isWeight=*/false);
    return known;
  }

  /// The product of codes, in front of that of their numbers.
  Value multiply(graph::MatmulOp product) {
    const auto [left, right] = factorsOf(product);
    const Codes a = made(left, product), b = made(right, product);
    builder.setInsertionPoint(product);
    auto scaled =
        graph::ScaledMatmulOp::create(builder, product.getLoc(), product.getType(), left.byRows ? a.rows : a.columns,
                                      right.byRows ? b.rows : b.columns, a.scale, b.scale);
    scaled->setDiscardableAttrs(product->getDiscardableAttrDictionary());
    scaled->removeAttr(graph::kFp8);
    return scaled.getY();
  }

  func::FuncOp function;
  Operation *lossOp;
  OpBuilder builder;
  Type weightFormat, gradientFormat;
  const bool isDelayed;
  llvm::MapVector<Value, Codes> codes;
  std::map<std::tuple<void *, int64_t, const void *>, Value> amax; ///< of weights, by place
};

struct QuantizeProducts : impl::QuantizeProductsBase<QuantizeProducts> {
  void runOnOperation() override {
    func::FuncOp microstep = graph::findEntry(getOperation(), graph::Entry::Microstep);
    if (!microstep || !ProductQuantizer(microstep).run())
      markAllAnalysesPreserved();
  }
};
} // namespace
} // namespace ztc
