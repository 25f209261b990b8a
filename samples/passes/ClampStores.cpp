// A pass over kernels that gives each an epilogue: what it stores lies within [-limit, limit]; what is not a number
// stays so. It runs where kernels are mapped to processors and GPUs, before they are lowered.
//   ztc compile MODEL --load-pass-plugin=ClampStores.so --pass-option=clamp-stores.limit=60000 -o plan.bin
#include "compiler/Dialect/Kernel/Kernel.h"
#include "compiler/Driver/Plugin.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Tools/Plugins/PassPlugin.h"

namespace {

struct ClampStores : mlir::PassWrapper<ClampStores, mlir::OperationPass<mlir::ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ClampStores)
  ClampStores() = default;
  ClampStores(const ClampStores &other) : PassWrapper(other) {}
  llvm::StringRef getArgument() const override { return "clamp-stores"; }
  llvm::StringRef getDescription() const override { return "keeps what kernels store within a range"; }

  void runOnOperation() override {
    auto kernels = getOperation().lookupSymbol<mlir::ModuleOp>(ztc::kernel::kKernels);
    if (!kernels)
      return;
    unsigned clamped = 0;
    kernels.walk([&](mlir::LLVM::StoreOp store) {
      // A narrow value is clamped before it is rounded: its type may not reach to the limit.
      mlir::OpOperand *stored = &store->getOpOperand(0);
      if (auto rounded = stored->get().getDefiningOp<mlir::arith::TruncFOp>())
        stored = &rounded->getOpOperand(0);
      if (!mlir::getElementTypeOrSelf(stored->get().getType()).isF32())
        return;
      mlir::OpBuilder builder(stored->getOwner());
      stored->set(clamp(builder, store.getLoc(), stored->get()));
      ++clamped;
    });
    mlir::remark::passed(getOperation().getLoc(), mlir::remark::RemarkOpts::name("clamped").category(getArgument()))
        << std::to_string(clamped) + " stores are clamped";
  }

  mlir::Value clamp(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value) {
    using mlir::arith::CmpFPredicate;
    auto within = [&](mlir::Value x, double bound, CmpFPredicate outside) -> mlir::Value {
      mlir::TypedAttr number = builder.getFloatAttr(builder.getF32Type(), bound);
      if (auto shaped = mlir::dyn_cast<mlir::ShapedType>(x.getType()))
        number = mlir::DenseElementsAttr::get(shaped, mlir::Attribute(number));
      mlir::Value limit = mlir::arith::ConstantOp::create(builder, loc, number);
      mlir::Value isOutside = mlir::arith::CmpFOp::create(builder, loc, outside, x, limit);
      return mlir::arith::SelectOp::create(builder, loc, isOutside, limit, x);
    };
    return within(within(value, limit, CmpFPredicate::OGT), -limit, CmpFPredicate::OLT);
  }

  Option<double> limit{*this, "limit", llvm::cl::desc("largest size of a stored number"), llvm::cl::init(1e30)};
};

} // namespace

extern "C" LLVM_ATTRIBUTE_WEAK mlir::PassPluginLibraryInfo mlirGetPassPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "clamp-stores", "1.0", [] { mlir::PassRegistration<ClampStores>(); }};
}

extern "C" void ztcRegisterPhaseHooks(ztc::PhaseHooks &hooks) {
  hooks.after(ztc::KernelLevel::Mapped, [] { return std::make_unique<ClampStores>(); });
}
