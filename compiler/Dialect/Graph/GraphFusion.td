// Groups: what becomes one kernel.
#ifndef ZTC_GRAPH_FUSION
#define ZTC_GRAPH_FUSION
include "compiler/Dialect/Graph/GraphBase.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"

def Graph_FusionOp : Graph_Op<"fusion", [IsolatedFromAbove, SingleBlockImplicitTerminator<"YieldOp">, Costed]> {
  let summary = "Primitive ops that become one kernel.";
  let description = [{
    The block arguments stand for the operands, graph.yield gives the results. `name` is a readable kernel name
    (rms_norm, swiglu_grad); `kind` says why the group is what it is.
    (C1) block arguments and operands agree in number and type. (C2) yielded values and results agree. (C3) only graph ops inside.
  }];
  let arguments = (ins Variadic<Graph_KernelTensor>:$inputs, StrAttr:$name, DefaultValuedAttr<Graph_FusionKindAttr, "FusionKind::Single">:$kind);
  let results = (outs Variadic<Graph_KernelTensor>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$name `(` $inputs `)` (`is` $kind^)? attr-dict-with-keyword `:` functional-type($inputs, $outputs) $body";
  let hasVerifier = 1;
}

def Graph_YieldOp : Op<Graph_Dialect, "yield", [Pure, Terminator, ReturnLike, ParentOneOf<["FusionOp"]>]> {
  let summary = "The results of a group.";
  let arguments = (ins Variadic<Graph_KernelTensor>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
  let builders = [OpBuilder<(ins), [{}]>];
}
#endif
