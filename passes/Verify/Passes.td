// Post-conditions of the phases.
#ifndef ZTC_PASSES_VERIFY
#define ZTC_PASSES_VERIFY
include "mlir/Pass/PassBase.td"

def VerifyImport : Pass<"ztc-verify-import", "mlir::ModuleOp"> {
  let summary = "Checks what holds after phase `import`.";
  let description = [{
    (I1) the module holds one function, `@forward`, with a body of `graph` ops.
    (I2) `graph.batch`, `graph.seq`, `graph.vocabulary` are positive integers; tokens, one argument, is (batch, seq) of i32.
    (I3) every other argument is a parameter with a checkpoint name of its own, of static shape.
    (I4) all floats, in arguments and in the body, have one type, and no cast leads from float to float.
    (I5) the result is (batch, seq, vocabulary) logits.
  }];
}

def VerifyBackward : Pass<"ztc-verify-backward", "mlir::ModuleOp"> {
  let summary = "Checks what holds after phase `backward`.";
  let description = [{
    (B1) the module holds `@microstep`, `@update`, `@eval` and `@generate`, perhaps `@decode`, no `@forward`, and only `graph` ops in them.
    (B2) `@microstep` takes tokens, targets, step, first_token where something is dropped, document_starts where rows are packed, parameters; it returns the loss (rank 0) and then, per trainable parameter in order,
    a gradient of its name and type.
    (B3) `@update` takes step, and parameter, gradient and the optimizer's states of each trainable parameter; it returns the new parameters and
    states, `gradient_norm` and `finite`.
    (B4) `@eval` takes tokens, targets, document_starts where rows are packed, and the parameters, and returns the loss, or one of each sequence.
    (B5) `@generate` takes tokens, a position of each sequence and the parameters, and returns (positions, vocabulary) logits; where there is
    `@decode_rows` it takes and returns the caches of that, else it returns those of `@decode` where there is one.
    (B6) `@decode` and `@decode_rows` take tokens, positions, the parameters and caches, and return (positions, vocabulary) logits and these caches.
  }];
}

def VerifyPrecision : Pass<"ztc-verify-precision", "mlir::ModuleOp"> {
  let summary = "Checks what holds after phase `precision`.";
  let description = [{
    (N1) `graph.precision` is fp32, bf16, fp16 or fp8; a float is f32 or the precision's narrow type (bf16 of fp8), but for the moments of `@update`; only fp8
    has codes of 8 bits.
    (N2) an op stores its floats as its row of the policy table says, or else, where it has none, in one type; only what `graph.kept_fp32`
    excepts is f32 throughout.
    (N3) a parameter is narrow in all functions, or f32 in all where it is excepted or a vector that is not trained; loss, gradients and logits are f32.
    (N4) in `@update` a gradient has its parameter's type, all states one type of f32 and bf16; beside a bf16 parameter stands an i16 master (or beside none),
    beside an f16 one an f32 master, beside f32 none.
    (N5) a value is rounded once to a type, and what is widened is not rounded back.
    (N6) no f32 activation is kept: of what the backward part reads of the forward part only parameters, vectors that are computed from
    parameters alone, constants, statistics (one number a row), what the op's row of the table says and what is excepted are f32.
  }];
}

def VerifyStorage : Pass<"ztc-verify-storage", "mlir::ModuleOp"> {
  let summary = "Checks that no group writes an f32 copy of a narrow value.";
  let description = [{
    (W1) no result of a group is a narrow operand of it that was only widened (or moved), unless it is a parameter's gradient, or an op that
    the table lets read f32, or that `graph.kept_fp32` excepts (it reads a parameter that is kept in f32, say), reads it. Flat buckets are
    not looked at: a gradient's wire type is widened where it adds up.
  }];
}

def VerifyShard : Pass<"ztc-verify-shard", "mlir::ModuleOp"> {
  let summary = "Checks what holds after phase `shard`.";
  let description = [{
    (S1) no function takes or returns a single parameter, gradient or state of one (what delayed scaling keeps is of no parameter).
    (S2) a bucket argument names a `dist.bucket` and is whole or a shard of it as the ZeRO stage says (at stage 3 no parameter is whole).
    (S3) a checkpoint name, a tied one too, stands in one bucket, and once there.
    (S4) `@microstep` returns a gradient of each trainable bucket, and also the reduced one: at stages 0 and 1 always, at 2 and 3 where parameters
    are narrow; `@update` returns parameters and states of each; they have the layouts of the arguments. Frozen buckets have none.
    (S5) the gradient of each trainable bucket is reduced exactly once, as a `dist.pack` of its parts: where gradients add up first, only in the last
    micro-step, and that is `reduced_gradient`; else always, and what it gives is added to `gradient`, of which `reduced_gradient` is the
    rounded form. Nothing else is reduced.
    (S6) a layout names a bucket, views and packs stay within theirs, and an axis is one of the mesh.
    (S7) nothing after a second gather of a bucket reads the first: gathered parameters are not kept from forward to backward where two are planned.
    (S8) the squares that give the norm are those of shards, and their sum goes through one all_reduce; that of each bucket through its own where
    updates are in the backward. Then gradients are as at stage 2 whatever the stage.
    (S9) a bucket's parameters have one type everywhere. A local gradient of a wider type is rounded to it before it is reduced, and `@update`
    takes it in that type; beside bf16 parameters stand i16 masters, beside f16 ones f32 masters.
  }];
}

def VerifyRecompute : Pass<"ztc-verify-recompute", "mlir::ModuleOp"> {
  let summary = "Checks what holds after phase `recompute`.";
  let description = [{
    (R1) only `@microstep` holds marks (`graph.recomputed`), clones (`graph.recomputation`) and barriers; marks stand in its forward part, before the op
    that computes the loss, clones in its backward part, after it.
    (R2) the backward part reads no result of what is marked.
    (R3) a barrier stands after a value of the backward part, and hands on none that is recomputed.
    (R4) a clone reads a barrier or another clone: it cannot be moved into the forward part.
  }];
}

def VerifyFuse : Pass<"ztc-verify-fuse", "mlir::ModuleOp"> {
  let summary = "Checks what holds after phase `fuse`.";
  let description = [{
    (F1) an op outside of groups is a library call, a collective, an alias, a constant, a pack or an accumulate.
    (F2) no macro op stands in a group.
    (F3) what an accumulate adds comes from an op that can add in place.
    (F4) a group that is a pointwise chain (its reason says so) holds what `canFuse` lets its ops take in, and gives its last op's result.
  }];
}

def VerifySchedule : Pass<"ztc-verify-schedule", "mlir::ModuleOp"> {
  let summary = "Checks what holds after phase `schedule`.";
  let description = [{
    (O1) a function has one block (the dialects have no other op for control flow: no test can break it).
    (O2) between an alias and its first reader stand only aliases and constants.
    (O3) the sum of an accumulate outside of buckets is computed before its addend.
    (O4) collectives are starts, each with an `order` that ascends in the text, and dones after them: all ranks launch them in one order.
    (O5) at any moment at most `dist.prefetch` + 1 transformer blocks have gathered parameters.
    (O6) of a bucket that is gathered more than once, nothing reads a gather after the next one's done: none is kept from forward to backward.
    (O7) a reduce_scatter is done before one starts that has at least a sixteenth of its elements.
  }];
}

def VerifyAssign : Pass<"ztc-verify-assign", "mlir::ModuleOp"> {
  let summary = "Checks what holds after phase `assign`.";
  let description = [{
    (A1) every argument and every result has a place inside an existing slot.
    (A2) an alias lies where its source does, an accumulate where its accumulator does, a pack's parts lie at their offsets in it.
    (A3) what an op reads has not been overwritten since it was computed.
    (A4) a result that a function returns for a bucket lies in that bucket's slot.
    (A5) a sum over ranks stands in the own shard of its addend; what is gathered lies where the shard does, at one rank: around the own shard
    that it is made of, or in a slot that is the shard's there.
  }];
}

def VerifyKernels : Pass<"ztc-verify-kernels", "mlir::ModuleOp"> {
  let summary = "Checks what holds of the kernels in `@kernels` between the passes of phase `codegen`.";
  let description = [{
    (V1) functions in `@host` and `@gpu` consist of ops of func, scf, cf, arith, math, vector, llvm and nvvm; lowered ones of llvm and nvvm.
    (V2) no op leaves the order of its additions open: reductions of vector, scf, llvm and nvvm, atomic additions.
    (V3) no op has fast-math flags, or may round once or twice.
    (V4) after ztc-expand-math there is no elementary function.
    (V5) `@forms` has functions kernel.func of ops of graph, and what their bodies compute takes the kernels that their schedules say.
  }];
  let options = [Option<"level", "level", "::ztc::KernelLevel", "::ztc::KernelLevel::Mapped", "how far the kernels have come", [{
    ::llvm::cl::values(clEnumValN(::ztc::KernelLevel::Forms, "forms", "by ztc-form-kernels"),
                       clEnumValN(::ztc::KernelLevel::Mapped, "mapped", "by ztc-map-to-host and ztc-map-to-gpu"),
                       clEnumValN(::ztc::KernelLevel::Expanded, "expanded", "by ztc-expand-math"),
                       clEnumValN(::ztc::KernelLevel::Lowered, "lowered", "by ztc-lower-kernels"))
  }]>];
}

def VerifyCodegen : Pass<"ztc-verify-codegen", "mlir::ModuleOp"> {
  let summary = "Checks what holds after phase `codegen`.";
  let description = [{
    (K1) every group has launches, and their kernels exist.
    (K2) every library call that works row by row has its service kernels.
    (K3) every kernel has an image per target.
  }];
}

def VerifyPlan : Pass<"ztc-verify-plan", "mlir::ModuleOp"> {
  let summary = "Checks what holds after phase `plan`: only plan ops, and the plan file's validator accepts what they say.";
}
#endif
