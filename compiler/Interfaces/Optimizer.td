// Optimizer: an op that updates a parameter and what is kept beside it.
#ifndef ZTC_INTERFACES_OPTIMIZER
#define ZTC_INTERFACES_OPTIMIZER
include "mlir/IR/OpBase.td"

def OptimizerOpInterface : OpInterface<"OptimizerOpInterface"> {
  let cppNamespace = "::ztc";
  let description = [{
    One optimizer step of a flat bucket, in whatever part of it a rank has: sharding changes operands and the types of results
    through this interface alone. All values have one length and layout; the new ones have the types of the old ones.
  }];
  let methods = [
    InterfaceMethod<"The parameter as it is stored.", "::mlir::OpOperand &", "getParameterMutable", (ins)>,
    InterfaceMethod<"Its gradient.", "::mlir::OpOperand &", "getGradientMutable", (ins)>,
    InterfaceMethod<"The parameter afterwards.", "::mlir::Value", "getNewParameter", (ins)>,
    InterfaceMethod<"What is kept of each element: the states, then the master where there is one.",
      "::llvm::SmallVector<::mlir::Value>", "keptValues", (ins)>,
    InterfaceMethod<"The results that take the place of keptValues, in the same order.",
      "::llvm::SmallVector<::mlir::Value>", "newKeptValues", (ins)>,
  ];
}
#endif
