// StepSource: an op that becomes steps of a plan.
#ifndef ZTC_CONVERSION_STEPSOURCE
#define ZTC_CONVERSION_STEPSOURCE
include "mlir/IR/OpBase.td"

def StepSourceOpInterface : OpInterface<"StepSourceOpInterface"> {
  let cppNamespace = "::ztc";
  let description = [{
    How an op of `graph` or `dist` becomes steps, and which kernels other than those of groups a device executes for it. All implementations are
    external models, one file for each kind of step in compiler/Conversion/Steps: the dialects know nothing of plans.
  }];
  let methods = [
    InterfaceMethod<"Writes the steps that execute the op; a located error where this instance has none.", "::llvm::LogicalResult", "emitSteps",
      (ins "::ztc::StepEmitter &":$emitter)>,
    InterfaceMethod<"The kernels that the host's library call uses, by the field of its step.", "::llvm::SmallVector<::ztc::ServiceKernel>",
      "getHostKernels", (ins "::ztc::KernelModule &":$kernels), [{}], [{ return {}; }]>,
    InterfaceMethod<"The kernels that a GPU executes, in the order of the step's field; a located error where there is none for this instance.",
      "::llvm::FailureOr<::llvm::SmallVector<::ztc::KernelDescription>>", "getGpuKernels", (ins "::ztc::KernelModule &":$kernels),
      [{}], [{ return ::llvm::SmallVector<::ztc::KernelDescription>(); }]>,
  ];
}
#endif
