// What becomes one kernel.
#ifndef ZTC_PASSES_FUSION
#define ZTC_PASSES_FUSION
include "mlir/Pass/PassBase.td"

def ExpandOrthogonalizations : Pass<"ztc-expand-orthogonalizations", "mlir::ModuleOp"> {
  let summary = "Muon's orthogonal directions are matrix products and kernels.";
  let description = [{
    Afterwards there is no `graph.orthogonalize`: a norm, then five times three products of bf16 factors with what is added to them (NewtonSchulz of
    compiler/Dialect/Graph/Optimizers.h). A matrix with more rows than columns is iterated from the right instead of being transposed. Of a stack of matrices
    the products are batches.

        %y = graph.orthogonalize %x : tensor<4x8xbf16>

    becomes, after the norm,

        %a = graph.matmul %x0, %x0 {transpose_b} : tensor<4x8xbf16>, tensor<4x8xbf16> -> tensor<4x4xbf16>
        %aa = graph.matmul %a, %a : tensor<4x4xbf16>, tensor<4x4xbf16> -> tensor<4x4xf32>
        %b = ... round(-4.775 a + 2.0315 aa)
        %bx = graph.matmul %b, %x0 : tensor<4x4xbf16>, tensor<4x8xbf16> -> tensor<4x8xf32>
        %x1 = ... round(3.4445 x0 + bx)
  }];
  let dependentDialects = ["::ztc::graph::GraphDialect"];
}

def DuplicateWidenings : Pass<"ztc-duplicate-widenings", "mlir::ModuleOp"> {
  let summary = "Every reader of a widened value widens it for itself.";
  let description = [{
    Afterwards a cast from a narrow float to a wider one has one reader, whose group takes it in: the narrow value is what is stored. A
    reshape, transpose, slice or broadcast of such a cast is a cast of the moved narrow value: the passes that write these before each
    of their readers run after this one, and would else give the cast several readers again. Where a product reads the wide value itself (`graph.wide_factors`),
    there and everywhere else one cast is read: it is written in any case. CSE must not run between this and the
    grouping: it would join the casts, and their value would be stored wide.

        %x = graph.cast %n : tensor<8x16xbf16> -> tensor<8x16xf32>
        %y = graph.exp %x : tensor<8x16xf32>
        %z = graph.log %x : tensor<8x16xf32>

    becomes

        %x0 = graph.cast %n : tensor<8x16xbf16> -> tensor<8x16xf32>
        %y = graph.exp %x0 : tensor<8x16xf32>
        %x1 = graph.cast %n : tensor<8x16xbf16> -> tensor<8x16xf32>
        %z = graph.log %x1 : tensor<8x16xf32>
  }];
  let dependentDialects = ["::ztc::graph::GraphDialect"];
}

def DuplicateCheap : Pass<"ztc-duplicate-cheap", "mlir::ModuleOp"> {
  let summary = "Every kernel computes for itself what costs it no more than to read it.";
  let description = [{
    Afterwards a value that only elementwise ops of several kernels read is written again before each of them where that costs no bytes: what it is computed from,
    by up to 12 elementwise ops, is together an eighth of it or less, as the decays between all pairs of positions are from a number for each; or it is
    computed from one value that each of the kernels reads too, as a sigmoid that its argument is multiplied by, and again in backward. It is not stored, and not
    kept for backward. CSE must not run between this and the grouping.

        %s = graph.sigmoid %x : tensor<8x16xf32>
        %y = graph.mul %x, %s : tensor<8x16xf32>
        ...
        %t = graph.mul %s, %x : tensor<8x16xf32>
        %dx = graph.mul %t, %dy : tensor<8x16xf32>

    becomes

        %s = graph.sigmoid %x : tensor<8x16xf32>
        %y = graph.mul %x, %s : tensor<8x16xf32>
        ...
        %s1 = graph.sigmoid %x : tensor<8x16xf32>
        %t = graph.mul %s1, %x : tensor<8x16xf32>
        %dx = graph.mul %t, %dy : tensor<8x16xf32>
  }];
  let dependentDialects = ["::ztc::graph::GraphDialect"];
}

def DuplicateBroadcasts : Pass<"ztc-duplicate-broadcasts", "mlir::ModuleOp"> {
  let summary = "Every reader repeats a row, a mask or an index for itself.";
  let description = [{
    Afterwards a broadcast or iota that several pointwise ops read is written before each of them, whose group takes it in: what is stored,
    and kept for the backward part, is what it repeats. CSE must not run between this and the grouping.
  }];
  let dependentDialects = ["::ztc::graph::GraphDialect"];
}

def DuplicateSlices : Pass<"ztc-duplicate-slices", "mlir::ModuleOp"> {
  let summary = "Every reader of a slice slices for itself: the slice is part of its kernel's index arithmetic.";
  let description = [{
    Afterwards a slice of a value that only slices read has one reader, or libraries alone as readers; reshapes on the way are written again too,
    and a recompute_barrier after the slice stands in front of it: what is kept is the whole. Where
    backward reads some of the slices, and these are less than seven eighths of the value, nothing changes: all of it would have to be kept for them. CSE must
    not run between this and the grouping: it would join the slices, and they would be stored.

        %g = graph.slice %y, [0, 0] : tensor<8x32xf32> -> tensor<8x16xf32>
        %u = graph.slice %y, [0, 16] : tensor<8x32xf32> -> tensor<8x16xf32>
        %s = graph.swiglu %g, %u : tensor<8x16xf32>
        %dg, %du = graph.swiglu_grad %g, %u, %ds : tensor<8x16xf32>

    becomes

        %g = graph.slice %y, [0, 0] : tensor<8x32xf32> -> tensor<8x16xf32>
        %u = graph.slice %y, [0, 16] : tensor<8x32xf32> -> tensor<8x16xf32>
        %s = graph.swiglu %g, %u : tensor<8x16xf32>
        %g1 = graph.slice %y, [0, 0] : tensor<8x32xf32> -> tensor<8x16xf32>
        %u1 = graph.slice %y, [0, 16] : tensor<8x32xf32> -> tensor<8x16xf32>
        %dg, %du = graph.swiglu_grad %g1, %u1, %ds : tensor<8x16xf32>
  }];
  let dependentDialects = ["::ztc::graph::GraphDialect"];
}

def GroupMacroOps : Pass<"ztc-group-macro-ops", "mlir::ModuleOp"> {
  let summary = "Every macro op that no library runs becomes a graph.fusion with its decomposition inside.";
  let description = [{
    Afterwards no decomposable op stands outside a group, except those that a library runs (attention, matmul, linear_cross_entropy).

        %y = graph.swiglu %g, %u : tensor<8x16xf32>

    becomes

        %y = graph.fusion "swiglu"(%g, %u) : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32> {
        ^bb0(%a: tensor<8x16xf32>, %b: tensor<8x16xf32>):
          %s = graph.sigmoid %a : tensor<8x16xf32>
          ...
          graph.yield %p : tensor<8x16xf32>
        }

    Slices that nothing else reads come with it. So do macro ops whose results are parts of one matrix and nothing else: with the `graph.concat` they
    are one kernel, which writes the parts at their places in the rows of the matrix; and a sum that one result is a term of, and nothing else.
  }];
  let dependentDialects = ["::ztc::graph::GraphDialect"];
}

def GroupPrimitiveOps : Pass<"ztc-group-primitive-ops", "mlir::ModuleOp"> {
  let summary = "Primitive ops become groups: pointwise chains, scalars, and whatever is left on its own.";
  let description = [{
    Afterwards every op that computes stands in a graph.fusion or is a library call. An op takes in the producers that nothing else reads, where each element of
    theirs is read at most once (`canFuse`): pointwise ops, and the broadcasts, indices, slices and splat constants they read, through reshapes and through
    transposes that leave rows whole; of a reduction what it adds up. A sum or a maximum of rows, and what is computed of it, joins what reads it for all of its
    row: the mean of a layer norm is part of the kernel that subtracts it. Scalars of a function that do not wait for one another's consumers share one group.
    An accumulate whose addend no kernel can add in place gets a group that copies (with a remark).
  }];
  let dependentDialects = ["::ztc::graph::GraphDialect"];
}

def FuseAmax : Pass<"ztc-fuse-amax", "mlir::ModuleOp"> {
  let summary = "The kernel that writes what is quantised also finds the absolute maxima of its rows.";
  let description = [{
    Afterwards a `graph.quantize_fp8` whose matrix is the result of a group reads absolute maxima that the group gives beside it, one for each row of the
    group's own shape (of a head, where rows are made of heads), and so reads the matrix once. A maximum is the same in any order: no bit changes.
    Matrices of libraries (attention's result), and heads of several tensors that a group writes side by side, stay as they are: their maxima are found
    by a kernel that reads them.

        %y = graph.fusion "swiglu"(%g, %u) : (tensor<32x16xbf16>, tensor<32x16xbf16>) -> tensor<32x16xbf16> {...}
        %s, %q = graph.quantize_fp8 %y {by_rows} : tensor<32x16xbf16> -> tensor<2xf32>, tensor<32x16xf8E4M3FN>

    becomes

        %y, %m = graph.fusion "swiglu"(%g, %u) : (tensor<32x16xbf16>, tensor<32x16xbf16>) -> (tensor<32x16xbf16>, tensor<32x1xbf16>) {...}
        %s, %q = graph.quantize_fp8 %y amax %m : tensor<32x1xbf16> {by_rows} : tensor<32x16xbf16> -> tensor<2xf32>, tensor<32x16xf8E4M3FN>
  }];
  let dependentDialects = ["::ztc::graph::GraphDialect"];
}

def FuseCodes : Pass<"ztc-fuse-codes", "mlir::ModuleOp"> {
  let summary = "The kernel that computes what is encoded writes the fp8 codes.";
  let description = [{
    Afterwards the codes of a `graph.encode_fp8` whose matrix is the result of a group, in both orders, are written by the group (`graph.fp8_codes`), which
    also gives the absolute maxima of its rows as `ztc-fuse-amax` has it; `graph.note_codes` transposes them and takes the largest. A matrix without
    other uses is not written. The codes are those of the rounded numbers: no bit changes. Matrices of libraries, and heads of several tensors
    that a group writes side by side, stay as they are.

        %y = graph.fusion "swiglu"(%g, %u) : (tensor<32x16xbf16>, tensor<32x16xbf16>) -> tensor<32x16xbf16> {...}
        %m, %q, %t = graph.encode_fp8 %y scale %s {by_columns, by_rows} : tensor<32x16xbf16>, tensor<2xf32> -> tensor<1xf32>, tensor<32x16xf8E4M3FN>, tensor<16x32xf8E4M3FN>

    becomes

        %q, %a = graph.fusion "swiglu"(%g, %u, %s) : (...) -> (tensor<32x16xf8E4M3FN>, tensor<32x1xbf16>) {..., graph.fp8_codes, ...}
        %m, %t = graph.note_codes %q amax %a : tensor<32x16xf8E4M3FN>, tensor<32x1xbf16> -> tensor<1xf32>, tensor<16x32xf8E4M3FN>
  }];
  let dependentDialects = ["::ztc::graph::GraphDialect"];
}

def SplitGroups : Pass<"ztc-split-groups", "mlir::ModuleOp"> {
  let summary = "Every op of a group becomes a group of its own: fusion turned off, to hold its bits against fusion turned on.";
  let description = [{
    Afterwards no group holds two ops that compute, except where a group works on a bucket: what is inside the optimizer has no storage
    of its own. No phase runs this pass; `ztc-opt` does, between `ztc compile --to=fuse` and `--from=fuse`.

        %y = graph.fusion "swiglu"(%g, %u) {sigmoid, mul, mul}

    becomes

        %s = graph.fusion "sigmoid"(%g) {sigmoid}
        %p = graph.fusion "mul"(%g, %s) {mul}
        %y = graph.fusion "mul"(%p, %u) {mul}
  }];
  let dependentDialects = ["::ztc::graph::GraphDialect"];
}
#endif
