// A pass that moves collectives: with ZeRO-3 a block's parameters are gathered right before they are used, not one
// block ahead. That costs the time of the gather and saves the memory of a block; --explain-passes says how much.
//   ztc compile MODEL --zero=3 --gpus=8 --load-pass-plugin=DelayGathers.so --explain-passes -o plan.bin
#include "compiler/Dialect/Dist/Dist.h"
#include "compiler/Driver/Plugin.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Tools/Plugins/PassPlugin.h"

namespace {

/// All starts of collectives, in the order in which they stand.
llvm::SmallVector<mlir::Operation *> startsOf(mlir::Block &block) {
  llvm::SmallVector<mlir::Operation *> starts;
  for (mlir::Operation &op : block)
    if (mlir::isa<ztc::dist::AllGatherStartOp, ztc::dist::ReduceScatterStartOp, ztc::dist::AllReduceStartOp>(op))
      starts.push_back(&op);
  return starts;
}

struct DelayGathers : mlir::PassWrapper<DelayGathers, mlir::OperationPass<mlir::ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(DelayGathers)
  llvm::StringRef getArgument() const override { return "delay-gathers"; }
  llvm::StringRef getDescription() const override { return "starts gathers of parameters where they are awaited"; }

  void runOnOperation() override {
    for (auto function : getOperation().getOps<mlir::func::FuncOp>()) {
      mlir::Block &block = function.getBody().front();
      unsigned moved = 0;
      for (auto done : llvm::make_early_inc_range(block.getOps<ztc::dist::AllGatherDoneOp>())) {
        auto start = done.getPending().getDefiningOp<ztc::dist::AllGatherStartOp>();
        // A shard that the function is given is there at any time; another one is on its way already.
        if (!start || !mlir::isa<mlir::BlockArgument>(start.getShard()) || start->getNextNode() == done)
          continue;
        start->moveBefore(done);
        ++moved;
      }
      if (moved == 0)
        continue;
      renumber(block);
      mlir::remark::passed(function.getLoc(), mlir::remark::RemarkOpts::name("delayed").category(getArgument()))
          << std::to_string(moved) + " gathers start where they are awaited";
    }
  }

  /// All ranks start collectives in one order, which stands at each: the numbers of a function go to its starts as they
  /// follow one another now.
  static void renumber(mlir::Block &block) {
    llvm::SmallVector<mlir::Operation *> starts = startsOf(block);
    llvm::SmallVector<mlir::IntegerAttr> orders;
    for (mlir::Operation *start : starts)
      orders.push_back(start->getAttrOfType<mlir::IntegerAttr>("order"));
    llvm::sort(orders, [](mlir::IntegerAttr a, mlir::IntegerAttr b) { return a.getInt() < b.getInt(); });
    for (auto [start, order] : llvm::zip_equal(starts, orders))
      start->setAttr("order", order);
  }
};

} // namespace

extern "C" LLVM_ATTRIBUTE_WEAK mlir::PassPluginLibraryInfo mlirGetPassPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "delay-gathers", "1.0", [] { mlir::PassRegistration<DelayGathers>(); }};
}

extern "C" void ztcRegisterPhaseHooks(ztc::PhaseHooks &hooks) {
  hooks.after(ztc::Phase::Schedule, [] { return std::make_unique<DelayGathers>(); }, ztc::Keeps::Bits);
}
