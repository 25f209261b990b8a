// Cost: floating-point operations and bytes of one op.
#ifndef ZTC_INTERFACES_COST
#define ZTC_INTERFACES_COST
include "mlir/IR/OpBase.td"

def CostOpInterface : OpInterface<"CostOpInterface"> {
  let cppNamespace = "::ztc";
  let description = [{ What one execution costs; causal attention counts half. }];
  let methods = [
    InterfaceMethod<"Floating-point operations; a fused multiply-add counts two.", "int64_t", "getFlops", (ins)>,
    InterfaceMethod<"Bytes of all operands and results, each counted once.", "int64_t", "getBytes", (ins),
      [{}], [{ return ::ztc::operandAndResultBytes($_op.getOperation()); }]>,
  ];
}
#endif
