// Decomposable: a macro op written out in primitive ops.
#ifndef ZTC_INTERFACES_DECOMPOSABLE
#define ZTC_INTERFACES_DECOMPOSABLE
include "mlir/IR/OpBase.td"

def DecomposableOpInterface : OpInterface<"DecomposableOpInterface"> {
  let cppNamespace = "::ztc";
  let description = [{
    A macro op defines itself by primitive `graph` ops: code generation takes this road, and tests hold
    the op's own derivative against the derivative of the decomposition.
  }];
  let methods = [
    InterfaceMethod<[{
      Emits the primitive ops at the builder's insertion point and returns one value for each result,
      of the same type. The op itself is left in place.
    }], "::llvm::FailureOr<::llvm::SmallVector<::mlir::Value>>", "decompose",
      (ins "::mlir::OpBuilder &":$builder)>,
  ];
}
#endif
