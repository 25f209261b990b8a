#include "compiler/Analysis/Recomputation.h"
#include "compiler/Dialect/Graph/Cache.h"
#include "compiler/Dialect/Graph/Fp8.h"
#include "compiler/Dialect/Graph/Roles.h"
#include "mlir/IR/Remarks.h"
#include "passes/Precision/Passes.h"
#include "passes/Precision/Policy.h"
#include "llvm/ADT/StringSet.h"

#define DEBUG_TYPE "ztc-choose-fp8-products"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_CHOOSEFP8PRODUCTS
#include "passes/Precision/Passes.h.inc"

namespace {

/// The parameter, or whatever it is, that moves of elements end in.
Value beforeMoves(Value value) {
  while (isa_and_nonnull<graph::ReshapeOp, graph::TransposeOp, graph::SliceOp>(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  return value;
}

class ProductChooser {
public:
  ProductChooser(func::FuncOp microstep, PrecisionOverrides &kept)
      : function(microstep), lossOp(lossOpOf(microstep)), kept(kept) {
    for (unsigned index : graph::argumentsWithRole(function, graph::Role::Parameter))
      if (isWeight(index)) {
        weights.insert(function.getArgument(index));
        names.insert(graph::argString(function, index, graph::kName));
      }
  }

  /// Marks the products whose codes of cotangents have `format`; false where there is none.
  bool run(Type format) {
    bool any = false;
    for (auto product : function.getBody().front().getOps<graph::MatmulOp>())
      if (isOfBlock(product) && fits(product)) {
        product->setAttr(graph::kFp8, TypeAttr::get(format));
        any = true;
      }
    return any;
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
    if (weights.contains(beforeMoves(product.getA())) || weights.contains(beforeMoves(product.getB())))
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
        << "a product stays bf16: its sizes are not multiples of 16";
    return false;
  }

  func::FuncOp function;
  Operation *lossOp;
  PrecisionOverrides &kept;
  DenseSet<Value> weights;
  llvm::StringSet<> names; ///< of the weights
};

struct ChooseFp8Products : impl::ChooseFp8ProductsBase<ChooseFp8Products> {
  using ChooseFp8ProductsBase::ChooseFp8ProductsBase;

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
    if (!ProductChooser(microstep, *kept).run(format)) {
      microstep.emitError(
          "no product of a transformer block can be in fp8: their sizes (and batch times sequence) are not "
          "multiples of 16, or the policy excepts all; compile with --precision=bf16");
      return signalPassFailure();
    }
    if (failed(kept->expectAllUsed(module.getLoc())))
      return signalPassFailure();
    if (scaling == Fp8Scaling::Delayed)
      module->setAttr(graph::kDelayedScaling, UnitAttr::get(&getContext()));
  }
};
} // namespace
} // namespace ztc
