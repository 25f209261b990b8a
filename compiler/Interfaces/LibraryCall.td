// LibraryCall: an op that a device executes by a library call, not by a kernel that is generated for a group.
#ifndef ZTC_INTERFACES_LIBRARYCALL
#define ZTC_INTERFACES_LIBRARYCALL
include "mlir/IR/OpBase.td"

def LibraryCallOpInterface : OpInterface<"LibraryCallOpInterface"> {
  let cppNamespace = "::ztc";
  let description = [{
    What the phases `fuse` and `assign` need to know of a library call, without knowing plans: which step it becomes, and which kernels a
    GPU executes for it, is StepSourceOpInterface's matter, whose implementations are external models.
  }];
  let methods = [
    InterfaceMethod<"Whether the call can add result `index` to what its storage holds.", "bool", "canAccumulate", (ins "unsigned":$index),
      [{}], [{ return false; }]>,
    InterfaceMethod<"What the call needs beside operands and results while it runs, on each device.", "::ztc::Workspace", "getWorkspace",
      (ins "const ::ztc::WorkspaceLimits &":$limits), [{}], [{ return {}; }]>,
    InterfaceMethod<[{
      What the result is, where it is made in front of each reader instead of being kept: it counts as workspace. Empty where it is an
      activation.
    }], "::llvm::StringRef", "getTransientResult", (ins), [{}], [{ return {}; }]>,
  ];
}
#endif
