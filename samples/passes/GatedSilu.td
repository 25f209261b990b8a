// An op of a plugin's own dialect. What it computes stands in decompose(): interpretation, a kernel and its cost follow
// from that, and so does a gradient; this op gives a better one.
include "compiler/Interfaces/Decomposable.td"
include "compiler/Interfaces/Differentiable.td"
include "mlir/IR/OpBase.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Sample_Dialect : Dialect {
  let name = "sample";
  let cppNamespace = "::sample";
}

def Sample_GatedSiluOp : Op<Sample_Dialect, "gated_silu", [Pure, SameOperandsAndResultType,
    DeclareOpInterfaceMethods<DecomposableOpInterface>, DeclareOpInterfaceMethods<DifferentiableOpInterface, ["buildVjp"]>]> {
  let summary = "gate * sigmoid(gate) * up.";
  let description = [{ (C1) the tensors are of floats. }];
  let arguments = (ins AnyRankedTensor:$gate, AnyRankedTensor:$up);
  let results = (outs AnyRankedTensor:$y);
  let assemblyFormat = "$gate `,` $up attr-dict `:` type($y)";
  let hasVerifier = 1;
}
