// Records that describe the plan (slots, buckets, kernels) and the programs. The steps are in PlanSteps.td.
#ifndef ZTC_PLAN_OPS
#define ZTC_PLAN_OPS
include "compiler/Dialect/Plan/PlanBase.td"
include "compiler/Dialect/Plan/PlanSteps.td"

def Plan_ModelOp : Plan_Op<"model"> {
  let summary = "What was compiled.";
  let arguments = (ins StrAttr:$model, I64Attr:$batch, I64Attr:$seq, I64Attr:$vocabulary, I64Attr:$position_limit, I64Attr:$layers,
                       I64Attr:$parameters, F64Attr:$flops_per_token);
  let assemblyFormat = "$model attr-dict";
}

def Plan_SlotOp : Plan_Op<"slot", [Symbol]> {
  let summary = "A planned piece of the arena.";
  let description = [{
    The size is `elements` times `element_bytes`, as `size_kind` says (SizeForm in plan.proto); `gpu_elements` replaces that on a GPU;
    `element_bytes` are those of `block_elements` elements, and `quantum` is that of a bucket, where they are given.
    (C1) elements >= 0 and element_bytes > 0. (C2) an accumulator is not persistent. (C3) what lies in a lower space is persistent.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Plan_SlotClassAttr:$slot_class, DefaultValuedAttr<Plan_SizeKindAttr, "::ztc::plan_ir::SizeKind::Constant">:$size_kind,
                       I64Attr:$elements, OptionalAttr<I64Attr>:$gpu_elements, I64Attr:$element_bytes, UnitAttr:$only_if_accumulating, UnitAttr:$only_if_several_ranks, TypeAttr:$type,
                       DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$shape, DefaultValuedAttr<I64Attr, "-1">:$layer, DefaultValuedAttr<StrAttr, "\"\"">:$reason,
                       UnitAttr:$persistent, UnitAttr:$accumulator, OptionalAttr<FlatSymbolRefAttr>:$same_as_at_one_rank,
                       OptionalAttr<FlatSymbolRefAttr>:$same_as_if_accumulating,
                       OptionalAttr<I64Attr>:$block_elements, OptionalAttr<I64Attr>:$quantum,
                       DefaultValuedAttr<Plan_SpaceAttr, "::ztc::plan_ir::Space::Device">:$space);
  let assemblyFormat = "$sym_name $slot_class $size_kind $elements `x` $type attr-dict";
  let hasVerifier = 1;
}

def Plan_BucketOp : Plan_Op<"bucket", [Symbol]> {
  let summary = "A flat bucket and its slots; without gradient and states where frozen.";
  let arguments = (ins SymbolNameAttr:$sym_name, I64Attr:$elements, I64Attr:$decayed, UnitAttr:$trainable, FlatSymbolRefAttr:$parameter_slot,
                       OptionalAttr<FlatSymbolRefAttr>:$gradient_slot, OptionalAttr<FlatSymbolRefAttr>:$master_slot,
                       DefaultValuedAttr<Plan_StateArrayAttr, "{}">:$states, OptionalAttr<I64Attr>:$quantum);
  let assemblyFormat = "$sym_name attr-dict";
}

def Plan_ParameterOp : Plan_Op<"parameter"> {
  let summary = "A parameter by its checkpoint name; `offset` in elements of its bucket.";
  let arguments = (ins StrAttr:$label, DefaultValuedAttr<StrArrayAttr, "{}">:$tied, DenseI64ArrayAttr:$shape, TypeAttr:$type, FlatSymbolRefAttr:$bucket,
                       I64Attr:$offset, UnitAttr:$decayed, UnitAttr:$trainable, OptionalAttr<DictionaryAttr>:$source);
  let assemblyFormat = "$label $bucket `[` $offset `]` attr-dict";
}

def Plan_ConstantOp : Plan_Op<"constant"> {
  let summary = "The bytes of a persistent slot.";
  let arguments = (ins FlatSymbolRefAttr:$slot, ElementsAttr:$data);
  let assemblyFormat = "$slot attr-dict";
}

def Plan_BindingsOp : Plan_Op<"bindings"> {
  let summary = "Slots that the trainer reads and writes by name. Each entry is a field of Bindings in plan.proto; an entry without a slot is left out.";
  let arguments = (ins DictionaryAttr:$slots);
  let assemblyFormat = "$slots attr-dict";
}

def Plan_ScaledMatrixOp : Plan_Op<"scaled_matrix"> {
  let summary = "A matrix whose fp8 codes have a scale of the step before, by the names that checkpoints know it by. The i-th op is the i-th record of the slot bound as `fp8_amax`.";
  let arguments = (ins StrArrayAttr:$names);
  let assemblyFormat = "$names attr-dict";
}

def Plan_ImageOp : Plan_Op<"image", [Symbol]> {
  let summary = "Machine code for one target; the bytes stand in a resource, outside the printed text. Of a cubin also its assembler's CUDA version (1000 major + 10 minor) and the PTX that it was made of, for drivers that are older.";
  let arguments = (ins SymbolNameAttr:$sym_name, StrAttr:$target, ElementsAttr:$data, DefaultValuedAttr<I64Attr, "0">:$cuda_version, OptionalAttr<ElementsAttr>:$ptx);
  let assemblyFormat = "$sym_name $target attr-dict";
}

def Plan_KernelOp : Plan_Op<"kernel", [Symbol]> {
  let summary = "A generated kernel: its symbol, form, readable text, and the images that hold it: a symbol, or a dictionary with `image`, for a GPU the block's fields of Kernel.Version in plan.proto, `outside` where it was not generated, and `waits` where it may be launched while the kernel before it ends.";
  let arguments = (ins SymbolNameAttr:$sym_name, StrAttr:$form, ArrayAttr:$images, DefaultValuedAttr<StrAttr, "\"\"">:$text);
  let assemblyFormat = "$sym_name $form $images attr-dict";
}

def Plan_RemarkOp : Plan_Op<"remark"> {
  let summary = "A note for the reader of the plan, for example about a copy that could not be avoided.";
  let arguments = (ins StrAttr:$text);
  let assemblyFormat = "$text attr-dict";
}

def Plan_ProgramOp : Plan_Op<"program", [Symbol, NoTerminator, SingleBlock]> {
  let summary = "Steps in order; the planner's timeline is microstep, update, eval, generate, decode, transfer.";
  let arguments = (ins SymbolNameAttr:$sym_name);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name attr-dict-with-keyword $body";
}
#endif
