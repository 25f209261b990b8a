// A pass over kernels: prints what each function of `@kernels` is made of, for processors and for GPUs.
//   ztc compile model.onnx --load-pass-plugin=KernelCounts.so -o plan.bin      (where kernels are mapped)
//   ztc-opt step.mlir --ztc-form-kernels --ztc-map-to-host --ztc-map-to-gpu --load-pass-plugin=KernelCounts.so
//     --kernel-counts
#include "compiler/Dialect/Kernel/Kernel.h"
#include "compiler/Driver/Plugin.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Tools/Plugins/PassPlugin.h"
#include "llvm/Support/FormatVariadic.h"

namespace {

struct KernelCounts : mlir::PassWrapper<KernelCounts, mlir::OperationPass<mlir::ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(KernelCounts)
  llvm::StringRef getArgument() const override { return "kernel-counts"; }
  llvm::StringRef getDescription() const override { return "prints what kernels are made of"; }

  void runOnOperation() override {
    auto kernels = getOperation().lookupSymbol<mlir::ModuleOp>(ztc::kernel::kKernels);
    if (!kernels)
      return;
    for (auto part : kernels.getOps<mlir::ModuleOp>())
      for (auto kernel : part.getOps<mlir::func::FuncOp>()) {
        int64_t arithmetic = 0, loads = 0, stores = 0, barriers = 0;
        kernel.walk([&](mlir::Operation *op) {
          arithmetic +=
              mlir::isa<mlir::arith::ArithDialect>(op->getDialect()) && !mlir::isa<mlir::arith::ConstantOp>(op);
          loads += mlir::isa<mlir::LLVM::LoadOp>(op);
          stores += mlir::isa<mlir::LLVM::StoreOp>(op);
          barriers += mlir::isa<mlir::NVVM::Barrier0Op>(op);
        });
        llvm::outs() << llvm::formatv("{0,-5} {1,-40} {2,5} arithmetic {3,5} loads {4,5} stores {5,5} barriers\n",
                                      *part.getSymName(), kernel.getName(), arithmetic, loads, stores, barriers);
      }
  }
};

} // namespace

extern "C" LLVM_ATTRIBUTE_WEAK mlir::PassPluginLibraryInfo mlirGetPassPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "kernel-counts", "1.0", [] { mlir::PassRegistration<KernelCounts>(); }};
}

extern "C" void ztcRegisterPhaseHooks(ztc::PhaseHooks &hooks) {
  hooks.after(ztc::KernelLevel::Mapped, [] { return std::make_unique<KernelCounts>(); });
}
