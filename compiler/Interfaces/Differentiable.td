// Differentiable: how an op propagates a cotangent to its operands.
#ifndef ZTC_INTERFACES_DIFFERENTIABLE
#define ZTC_INTERFACES_DIFFERENTIABLE
include "mlir/IR/OpBase.td"

def DifferentiableOpInterface : OpInterface<"DifferentiableOpInterface"> {
  let cppNamespace = "::ztc";
  let description = [{
    Reverse-mode differentiation of one op. Rules emit only `graph` ops, so that a derivative is
    verified, interpreted, fused and compiled like everything else.
  }];
  let methods = [
    InterfaceMethod<[{
      Emits the vector-Jacobian product: for each operand that `context.wants`, the cotangent is
      given to `context.accumulate`. A missing result cotangent means zero, and is asked for only
      through `context.cotangent`. Emits nothing for operands that nobody wants.
      Fails, with a located diagnostic, where this instance of the op has no derivative.
    }], "::llvm::LogicalResult", "buildVjp",
      (ins "::mlir::OpBuilder &":$builder, "::ztc::VjpContext &":$context)>,
    InterfaceMethod<[{
      Replaces the op by a form that also returns what its derivative reads (attention with its row
      statistics) and returns the new op; the op itself where nothing is missing. Results keep their order.
    }], "::mlir::Operation *", "withResiduals", (ins "::mlir::OpBuilder &":$builder),
      [{}], [{ return $_op.getOperation(); }]>,
  ];
}
#endif
