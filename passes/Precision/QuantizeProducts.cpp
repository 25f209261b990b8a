#include "compiler/Analysis/Recomputation.h"
#include "compiler/Dialect/Graph/Cache.h"
#include "compiler/Dialect/Graph/Fp8.h"
#include "compiler/Dialect/Graph/Roles.h"
#include "mlir/IR/Remarks.h"
#include "passes/Precision/Passes.h"
#include "passes/Precision/Policy.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSet.h"
#include <array>

#define DEBUG_TYPE "ztc-quantize-products"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_QUANTIZEPRODUCTS
#include "passes/Precision/Passes.h.inc"

namespace {

/// What stands at the end of moves of a value's elements: a parameter, an activation.
Value unmoved(Value value) {
  while (isa_and_nonnull<graph::ReshapeOp, graph::TransposeOp, graph::SliceOp>(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  return value;
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
  Value scale, rows, columns; ///< once they are made
};

class ProductQuantizer {
public:
  ProductQuantizer(func::FuncOp microstep, Type gradientFormat, PrecisionOverrides &kept)
      : function(microstep), lossOp(lossOpOf(microstep)), kept(kept), builder(microstep.getContext()),
        weightFormat(Float8E4M3FNType::get(microstep.getContext())), gradientFormat(gradientFormat) {
    for (unsigned index : graph::argumentsWithRole(function, graph::Role::Parameter))
      if (isWeight(index)) {
        weights.insert(function.getArgument(index));
        names.insert(graph::argString(function, index, graph::kName));
      }
  }

  /// False where there is no such product.
  bool run() {
    SmallVector<graph::MatmulOp> products;
    for (auto product : function.getBody().front().getOps<graph::MatmulOp>())
      if (isOfBlock(product) && fits(product))
        products.push_back(product);
    for (graph::MatmulOp product : products)
      for (Factor factor : factorsOf(product))
        note(factor, product);
    // Codes are found by what the graph reads now: what stands in its place comes last.
    SmallVector<Value> scaled;
    for (graph::MatmulOp product : products)
      scaled.push_back(multiply(product));
    for (auto [product, value] : llvm::zip_equal(products, scaled)) {
      product.replaceAllUsesWith(value);
      product.erase();
    }
    return !products.empty();
  }

private:
  /// A matrix of a transformer block that is multiplied as it is: no adapter, whose products are small, no table.
  bool isWeight(unsigned index) {
    auto type = cast<RankedTensorType>(function.getArgumentTypes()[index]);
    return type.getRank() == 2 && type.getElementType().isBF16() && function.getArgAttr(index, graph::kLayer) &&
           !graph::argString(function, index, graph::kName).contains(".lora_") && !kept.hasParameter(function, index);
  }

  /// Whether a product is a linear layer of a block, or one of its two gradients.
  bool isOfBlock(graph::MatmulOp product) {
    auto type = cast<RankedTensorType>(product.getA().getType());
    if (type.getRank() != 2 || !type.getElementType().isBF16() || product->hasAttr(graph::kWide) || kept.hasOp(product))
      return false;
    if (weights.contains(unmoved(product.getA())) || weights.contains(unmoved(product.getB())))
      return true;
    return lossOp && lossOp->isBeforeInBlock(product) && isGradientOfWeight(product.getY());
  }

  /// Whether all of `value` ends in gradients of such weights.
  bool isGradientOfWeight(Value value) {
    if (value.use_empty())
      return false;
    return llvm::all_of(value.getUses(), [&](OpOperand &use) {
      Operation *user = use.getOwner();
      if (isa<func::ReturnOp>(user)) {
        const unsigned index = use.getOperandNumber();
        auto name = function.getResultAttrOfType<StringAttr>(index, graph::kName);
        return graph::resultOf(function, index) == graph::ResultKind::Gradient && name &&
               names.contains(name.getValue());
      }
      const bool hands = isa<graph::ReshapeOp, graph::TransposeOp, graph::SliceOp, graph::ConcatOp, graph::PadOp,
                             graph::AddOp, graph::AccumulateOp>(user);
      return hands && isGradientOfWeight(user->getResult(0));
    });
  }

  bool fits(graph::MatmulOp product) {
    const auto isWhole = [](Value matrix) {
      return llvm::all_of(cast<RankedTensorType>(matrix.getType()).getShape(),
                          [](int64_t size) { return size % int64_t(kFp8Tile) == 0; });
    };
    if (isWhole(product.getA()) && isWhole(product.getB()))
      return true;
    remark::missed(product.getLoc(), remark::RemarkOpts::name("fp8").category(DEBUG_TYPE).function(function.getName()))
        << "a product stays bf16: its sizes are no multiples of 16";
    return false;
  }

  std::array<Factor, 2> factorsOf(graph::MatmulOp product) const {
    return {Factor{product.getA(), !product.getTransposeA()}, Factor{product.getB(), product.getTransposeB()}};
  }

  bool isParameter(Value value) const { return isa<BlockArgument>(unmoved(value)); }

  /// Cotangents are what the backward part computes.
  Type formatOf(Value value) const {
    Operation *source = unmoved(value).getDefiningOp();
    return source && lossOp && (source == lossOp || lossOp->isBeforeInBlock(source)) ? gradientFormat : weightFormat;
  }

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

  /// Codes of an activation are made once, in front of their first reader; those of a weight in front of each.
  void make(Codes &wanted, Value matrix, bool isWeight) {
    auto type = cast<RankedTensorType>(matrix.getType());
    SmallVector<Type> results{RankedTensorType::get({2}, builder.getF32Type())};
    if (wanted.byRows)
      results.push_back(RankedTensorType::get(type.getShape(), wanted.format));
    if (wanted.byColumns)
      results.push_back(RankedTensorType::get({type.getDimSize(1), type.getDimSize(0)}, wanted.format));
    builder.setInsertionPoint(wanted.first);
    const auto flag = [&](bool is) { return is ? builder.getUnitAttr() : UnitAttr(); };
    auto op = graph::QuantizeFp8Op::create(builder, wanted.first->getLoc(), results, matrix, flag(wanted.byRows),
                                           flag(wanted.byColumns), flag(isWeight));
    wanted.scale = op.getScale();
    wanted.rows = wanted.byRows ? op.getCodes().front() : Value();
    wanted.columns = wanted.byColumns ? op.getCodes().back() : Value();
  }

  Codes made(Factor factor, Operation *reader) {
    if (isParameter(factor.matrix)) {
      Codes own{factor.byRows, !factor.byRows, reader, weightFormat, {}, {}, {}};
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
    return scaled.getY();
  }

  func::FuncOp function;
  Operation *lossOp;
  PrecisionOverrides &kept;
  OpBuilder builder;
  Type weightFormat, gradientFormat;
  DenseSet<Value> weights;
  llvm::StringSet<> names; ///< of the weights
  llvm::MapVector<Value, Codes> codes;
};

struct QuantizeProducts : impl::QuantizeProductsBase<QuantizeProducts> {
  using QuantizeProductsBase::QuantizeProductsBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto precision = module->getAttrOfType<StringAttr>(graph::kPrecision);
    if (!precision || precision.getValue() != "fp8") {
      module.emitError("products are quantised in precision fp8 alone");
      return signalPassFailure();
    }
    std::vector<std::string> patterns(keep.begin(), keep.end());
    FailureOr<PrecisionOverrides> kept = PrecisionOverrides::parse(module.getLoc(), patterns);
    if (failed(kept))
      return signalPassFailure();
    func::FuncOp microstep = graph::findEntry(module, graph::Entry::Microstep);
    if (!microstep) {
      module.emitError("has no @microstep whose products could be quantised");
      return signalPassFailure();
    }
    Type format = gradients == CotangentFormat::E4m3 ? Type(Float8E4M3FNType::get(&getContext()))
                                                     : Float8E5M2Type::get(&getContext());
    for (unsigned index : graph::argumentsWithRole(microstep, graph::Role::Parameter))
      if (microstep.getArgAttr(index, graph::kQuantized)) {
        microstep.emitError("weights in fewer bits, as '")
            << graph::argString(microstep, index, graph::kName)
            << "' is, are multiplied in 16 bits: compile with --precision=bf16";
        return signalPassFailure();
      }
    if (!ProductQuantizer(microstep, format, *kept).run()) {
      microstep.emitError(
          "no product of a transformer block can be in fp8: their sizes (and batch times sequence) are no "
          "multiples of 16, or the policy excepts all; compile with --precision=bf16");
      return signalPassFailure();
    }
    if (failed(kept->expectAllUsed(module.getLoc())))
      return signalPassFailure();
  }
};
} // namespace
} // namespace ztc
