#include "compiler/Codegen/LowerKernels.h"
#include "compiler/Dialect/Kernel/Kernel.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVMPass.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;

namespace ztc::codegen {
namespace {

/// Ops of arith and math in one conversion: each further one would walk, retype and verify every kernel again.
struct ConvertArithmetic : PassWrapper<ConvertArithmetic, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ConvertArithmetic)
  StringRef getArgument() const override { return "ztc-convert-arithmetic"; }
  StringRef getDescription() const override { return "Ops of arith and math become ops of the LLVM dialect."; }
  void getDependentDialects(DialectRegistry &registry) const override { registry.insert<LLVM::LLVMDialect>(); }

  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    LLVMTypeConverter converter(&getContext());
    arith::populateCeilFloorDivExpandOpsPatterns(patterns);
    arith::populateArithToLLVMConversionPatterns(converter, patterns);
    populateMathToLLVMConversionPatterns(converter, patterns);
    LLVMConversionTarget target(getContext());
    if (failed(applyPartialConversion(getOperation(), target, std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace

void addLoweringPasses(OpPassManager &pm) {
  // Function by function, which threads of the compiler share.
  OpPassManager &functions = pm.nest<func::FuncOp>();
  functions.addPass(createSCFToControlFlowPass());
  functions.addPass(createConvertVectorToLLVMPass());
  functions.addPass(std::make_unique<ConvertArithmetic>());
  pm.addPass(createConvertControlFlowToLLVMPass());
  pm.addPass(createConvertFuncToLLVMPass());
  pm.addPass(createReconcileUnrealizedCastsPass());
}

SmallVector<ModuleOp> mappedModules(ModuleOp kernels) {
  SmallVector<ModuleOp> parts;
  for (StringRef name : {kernel::kHost, kernel::kGpu})
    if (auto part = kernels.lookupSymbol<ModuleOp>(name))
      parts.push_back(part);
  return parts;
}

void finishLowering(ModuleOp kernels) {
  // What a loop says of itself arrives at its branch under the name that it had, which the translation does not know.
  kernels.walk([](LLVM::BrOp branch) {
    if (auto annotation = branch->getAttrOfType<LLVM::LoopAnnotationAttr>(kLoopAnnotation))
      branch->removeDiscardableAttr(kLoopAnnotation), branch.setLoopAnnotationAttr(annotation);
  });
  Builder b(kernels.getContext());
  for (auto function : kernels.getOps<LLVM::LLVMFuncOp>()) {
    auto launch = function->getAttrOfType<kernel::LaunchAttr>(kernel::kLaunch);
    if (!launch)
      continue;
    function->setAttr(NVVM::NVVMDialect::getKernelFuncAttrName(), b.getUnitAttr());
    function->setAttr(NVVM::NVVMDialect::getReqntidAttrName(), b.getDenseI32ArrayAttr({int32_t(launch.getThreads())}));
    if (launch.getBlocks())
      function->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(), b.getI32IntegerAttr(launch.getBlocks()));
  }
}

} // namespace ztc::codegen
