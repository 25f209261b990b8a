// The steps: what the executor does, one op per message of plan.proto's Step.kind.
#ifndef ZTC_PLAN_STEPS
#define ZTC_PLAN_STEPS
include "compiler/Dialect/Plan/PlanBase.td"
include "compiler/Dialect/Plan/PlanInterfaces.td"

/// `label` is readable and unique in its program; `operands` in the order that plan.proto gives.
class Plan_Step<string mnemonic, dag extra> : Plan_Op<mnemonic, [StepOpInterface, HasParent<"ProgramOp">]> {
  let arguments = !con((ins StrAttr:$label, Plan_OperandArrayAttr:$slots, DefaultValuedAttr<I64Attr, "-1">:$layer, DefaultValuedAttr<I64Attr, "0">:$stream,
                            DefaultValuedAttr<StrAttr, "\"\"">:$reason, DefaultValuedAttr<I64Attr, "0">:$flops), extra);
  let assemblyFormat = "$label $slots attr-dict";
}
/// Steps that compute may be for optimizer steps of several micro-steps, `only_if_accumulating`, or of one, `unless_accumulating`.
def Plan_DefaultAccumulate : DefaultValuedAttr<Plan_AccumulateAttr, "::ztc::plan_ir::Accumulate::Overwrite">;

/// What a GPU executes in place of the host's library call, in the order of ServiceKernels.md.
def Plan_GpuKernels : OptionalAttr<FlatSymbolRefArrayAttr>;

def Plan_LaunchOp : Plan_Step<"launch", (ins OptionalAttr<FlatSymbolRefAttr>:$kernel, Plan_DefaultAccumulate:$accumulate,
    OptionalAttr<FlatSymbolRefAttr>:$kernel_add, DefaultValuedAttr<I64Attr, "0">:$extent, DefaultValuedAttr<I64Attr, "1">:$grain,
    OptionalAttr<FlatSymbolRefAttr>:$bucket, UnitAttr:$whole, DefaultValuedAttr<I64Attr, "0">:$flat_block, DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$scalars,
    DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$read_bytes, DefaultValuedAttr<I64Attr, "0">:$piece, DefaultValuedAttr<I64Attr, "0">:$piece_elements, UnitAttr:$only_if_accumulating, UnitAttr:$unless_accumulating)> {
  let summary = "A generated kernel over a parallel range; flat where `bucket` is given, over all of it or the rank's shard, or a piece of that. Of operand i it reads `read_bytes[i]`, 0 or without the list: all. No kernel: a plan for memory reports only.";
}
def Plan_GemmOp : Plan_Step<"gemm", (ins I64Attr:$m, I64Attr:$n, I64Attr:$k, I64Attr:$lda, I64Attr:$ldb, I64Attr:$ldc, UnitAttr:$transpose_a, UnitAttr:$transpose_b,
    DefaultValuedAttr<I64Attr, "1">:$batch, DefaultValuedAttr<I64Attr, "0">:$stride_a, DefaultValuedAttr<I64Attr, "0">:$stride_b,
    DefaultValuedAttr<I64Attr, "0">:$stride_c, Plan_DefaultAccumulate:$accumulate, UnitAttr:$bias, UnitAttr:$gelu, TypeAttr:$type_a, TypeAttr:$type_c, UnitAttr:$only_if_accumulating, UnitAttr:$unless_accumulating)> {
  let summary = "C = op(A) op(B), or added to C. Operands after the fourth are added: a matrix, and with `bias` a vector to each row; with `gelu` C is GELU of that sum, which the last operand takes.";
}
def Plan_AttentionOp : Plan_Step<"attention", (ins I64Attr:$batch, I64Attr:$seq, I64Attr:$heads, I64Attr:$kv_heads, I64Attr:$head_dim, F64Attr:$scale,
    UnitAttr:$causal, DefaultValuedAttr<I64Attr, "0">:$window, DefaultValuedAttr<F64Attr, "0.0">:$softcap, I64Attr:$block, OptionalAttr<FlatSymbolRefAttr>:$softmax_kernel,
    OptionalAttr<FlatSymbolRefAttr>:$softmax_grad_kernel, OptionalAttr<FlatSymbolRefAttr>:$row_dot_kernel, UnitAttr:$grad, UnitAttr:$packed, TypeAttr:$type, Plan_GpuKernels:$gpu_kernels)> {
  let summary = "Attention, or with `grad` its cotangents.";
}
def Plan_LinearCrossEntropyOp : Plan_Step<"linear_cross_entropy", (ins I64Attr:$tokens, I64Attr:$width, I64Attr:$vocabulary, I64Attr:$chunk, UnitAttr:$training,
    Plan_DefaultAccumulate:$accumulate, Plan_DefaultAccumulate:$loss_accumulate, OptionalAttr<FlatSymbolRefAttr>:$rows_kernel,
    TypeAttr:$type, I64Attr:$gpu_chunk, DefaultValuedAttr<I64Attr, "1">:$groups, UnitAttr:$weighted, Plan_GpuKernels:$gpu_kernels)> {
  let summary = "Head and loss, chunk by chunk; as many losses as `groups`, of rows that follow one another, each times its weight where `weighted`.";
}
def Plan_GatherOp : Plan_Step<"gather", (ins I64Attr:$rows, I64Attr:$row_bytes, I64Attr:$table_rows, Plan_GpuKernels:$gpu_kernels,
    DefaultValuedAttr<I64Attr, "0">:$divisor)> {
  let summary = "Rows of a table by index, or by the quotients of indices.";
}
def Plan_RouteOp : Plan_Step<"route", (ins I64Attr:$tokens, I64Attr:$choices, I64Attr:$experts, Plan_GpuKernels:$gpu_kernels)> {
  let summary = "The order of choices by expert, their places in it, and where each expert's rows start.";
}
def Plan_CombineOp : Plan_Step<"combine", (ins I64Attr:$rows, I64Attr:$choices, I64Attr:$width, TypeAttr:$type, Plan_GpuKernels:$gpu_kernels)> {
  let summary = "Of each token the sum of its choices' rows.";
}
def Plan_GroupedGemmOp : Plan_Step<"grouped_gemm", (ins I64Attr:$rows, I64Attr:$n, I64Attr:$k, I64Attr:$groups, UnitAttr:$transpose_b, UnitAttr:$outer,
    Plan_DefaultAccumulate:$accumulate, TypeAttr:$type_a, TypeAttr:$type_c, Plan_GpuKernels:$gpu_kernels)> {
  let summary = "Rows of groups times the groups' matrices, or the sums of their outer products.";
}
def Plan_StatePassingOp : Plan_Step<"state_passing", (ins I64Attr:$chunks, I64Attr:$rows, I64Attr:$keys, I64Attr:$values, DefaultValuedAttr<I64Attr, "0">:$positions,
    DefaultValuedAttr<I64Attr, "0">:$decay_keys, DefaultValuedAttr<I64Attr, "0">:$decay_parts, UnitAttr:$plus, UnitAttr:$past, UnitAttr:$reverse, Plan_GpuKernels:$gpu_kernels)> {
  let summary = "The states before each chunk of positions, one after the other.";
}
def Plan_UnitLowerInverseOp : Plan_Step<"unit_lower_inverse", (ins I64Attr:$count, I64Attr:$size, Plan_GpuKernels:$gpu_kernels)> {
  let summary = "The inverse of each matrix with ones on the diagonal and zeros above it.";
}
def Plan_SelectiveScanOp : Plan_Step<"selective_scan", (ins I64Attr:$batch, I64Attr:$positions, I64Attr:$channels, I64Attr:$states, I64Attr:$chunk, UnitAttr:$grad, UnitAttr:$packed,
    OptionalAttr<FlatSymbolRefAttr>:$scan_kernel, Plan_GpuKernels:$gpu_kernels)> {
  let summary = "Channels that each read and write a state of a few numbers, or with `grad` the cotangents.";
}
def Plan_ScatterAddOp : Plan_Step<"scatter_add", (ins I64Attr:$rows, I64Attr:$width, I64Attr:$table_rows, Plan_DefaultAccumulate:$accumulate, TypeAttr:$type,
    Plan_GpuKernels:$gpu_kernels)> {
  let summary = "Rows added to a table by index, in order of the rows.";
}
def Plan_CopyOp : Plan_Step<"copy", (ins I64Attr:$bytes)> { let summary = "Bytes from one place to another."; }
def Plan_FillOp : Plan_Step<"fill", (ins I64Attr:$value)> { let summary = "Every byte of a place."; }
def Plan_CollectiveOp : Plan_Step<"collective", (ins Plan_CollectiveKindAttr:$kind, OptionalAttr<FlatSymbolRefAttr>:$bucket, StrAttr:$axis, TypeAttr:$type,
    I64Attr:$launch_order, UnitAttr:$only_last)> {
  let summary = "What ranks send one another: a bucket's shards, their sums, or a scalar's sum (without a bucket).";
}
def Plan_RecordOp : Plan_Step<"record", (ins I64Attr:$event, UnitAttr:$only_last)> { let summary = "Marks what its stream has been given so far."; }
def Plan_WaitOp : Plan_Step<"wait", (ins I64Attr:$event, UnitAttr:$only_last)> {
  let summary = "Holds its stream back until an event; operands are the slots in use until then.";
}
def Plan_NarrowOp : Plan_Step<"narrow", (ins TypeAttr:$from, TypeAttr:$to, UnitAttr:$only_last, Plan_GpuKernels:$gpu_kernels, UnitAttr:$only_if_accumulating, UnitAttr:$unless_accumulating)> { let summary = "A bucket or the rank's shard of it, rounded to a narrower type; from and to may begin at the same byte. Or a place of its own, rounded to a range of a bucket."; }
def Plan_DequantizeOp : Plan_Step<"dequantize", (ins Plan_WeightFormatAttr:$format, I64Attr:$rows, I64Attr:$columns, TypeAttr:$type, Plan_GpuKernels:$gpu_kernels)> { let summary = "The numbers of a weight that is stored in fewer bits."; }
def Plan_QuantizeFp8Op : Plan_Step<"quantize_fp8", (ins I64Attr:$rows, I64Attr:$columns, TypeAttr:$from, TypeAttr:$to, UnitAttr:$by_rows, UnitAttr:$by_columns,
    UnitAttr:$known_scale, Plan_DefaultAccumulate:$accumulate, Plan_GpuKernels:$gpu_kernels)> {
  let summary = "The fp8 codes of a matrix, with one scale for all of it.";
}
def Plan_ScaledGemmOp : Plan_Step<"scaled_gemm", (ins I64Attr:$m, I64Attr:$n, I64Attr:$k, TypeAttr:$type_a, TypeAttr:$type_b, TypeAttr:$type_c,
    Plan_DefaultAccumulate:$accumulate, UnitAttr:$only_if_accumulating, UnitAttr:$unless_accumulating)> {
  let summary = "C = A B^T of fp8 codes, times the inverses of their scales, or added to C.";
}
def Plan_ShardFp8Op : Plan_Step<"shard_fp8", (ins DenseI64ArrayAttr:$ranges, DefaultValuedAttr<I64Attr, "0">:$first, TypeAttr:$from, TypeAttr:$to, Plan_GpuKernels:$gpu_kernels)> {
  let summary = "Of ranges of buckets what lies in this rank's shards: absolute maxima, or fp8 codes.";
}
def Plan_TransposeCodesOp : Plan_Step<"transpose_codes", (ins I64Attr:$rows, I64Attr:$columns, OptionalAttr<TypeAttr>:$maxima, Plan_DefaultAccumulate:$accumulate,
    Plan_GpuKernels:$gpu_kernels)> {
  let summary = "A matrix of fp8 codes, transposed; of delayed scaling also the largest of its parts' absolute maxima.";
}
def Plan_MoveOp : Plan_Step<"move", (ins)> { let summary = "Bytes between the device and a lower space, on a stream of its own; slots are pairs of from and to."; }
def Plan_TransferOp : Plan_Step<"transfer", (ins)> { let summary = "Checkpoint, export and gradient-dump buffers: planned, never executed."; }
#endif
