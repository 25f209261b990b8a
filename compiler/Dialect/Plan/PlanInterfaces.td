// What every step has in common.
#ifndef ZTC_PLAN_INTERFACES
#define ZTC_PLAN_INTERFACES
include "mlir/IR/OpBase.td"

def StepOpInterface : OpInterface<"StepOpInterface"> {
  let cppNamespace = "::ztc::plan_ir";
  let description = [{ One step of a program: everything of plan.proto's Step but its kind, and a writer of the kind. }];
  let methods = [
    InterfaceMethod<"Readable and unique in its program.", "::llvm::StringRef", "getStepLabel", (ins), [{}], [{ return $_op.getLabel(); }]>,
    InterfaceMethod<"Operands in order.", "::mlir::ArrayAttr", "getStepSlots", (ins), [{}], [{ return $_op.getSlots(); }]>,
    InterfaceMethod<"Transformer block, or -1.", "int64_t", "getStepLayer", (ins), [{}], [{ return int64_t($_op.getLayer()); }]>,
    InterfaceMethod<"Stream.", "int64_t", "getStepStream", (ins), [{}], [{ return int64_t($_op.getStream()); }]>,
    InterfaceMethod<"Why this kernel or library call.", "::llvm::StringRef", "getStepReason", (ins), [{}], [{ return $_op.getReason(); }]>,
    InterfaceMethod<"Whether it runs in the last micro-step of an optimizer step only.", "bool", "isOnlyLast", (ins), [{}],
                    [{ return $_op->hasAttr("only_last"); }]>,
    InterfaceMethod<"Whether it runs only where an optimizer step has several micro-steps.", "bool", "isOnlyIfAccumulating", (ins), [{}],
                    [{ return $_op->hasAttr("only_if_accumulating"); }]>,
    InterfaceMethod<"Whether it runs only where an optimizer step has one micro-step.", "bool", "isUnlessAccumulating", (ins), [{}],
                    [{ return $_op->hasAttr("unless_accumulating"); }]>,
    InterfaceMethod<"Floating-point operations.", "int64_t", "getStepFlops", (ins), [{}], [{ return int64_t($_op.getFlops()); }]>,
  ];
}
#endif
