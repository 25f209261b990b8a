// Precision: which operands and results of an op stay f32 under a mixed-precision policy.
#ifndef ZTC_INTERFACES_PRECISION
#define ZTC_INTERFACES_PRECISION
include "mlir/IR/OpBase.td"

def PrecisionOpInterface : OpInterface<"PrecisionOpInterface"> {
  let cppNamespace = "::ztc";
  let description = [{
    The op's row of the policy table. An op without this interface stores all its floats in one type, computes in f32 and
    rounds its result once.
  }];
  let methods = [
    InterfaceMethod<"Storage of each operand and of each result.", "::ztc::PrecisionRule", "getPrecisionRule", (ins)>,
  ];
}
#endif
