// The dist dialect: how parameters, gradients and states lie in flat buckets and on a mesh of ranks.
#ifndef ZTC_DIST_OPS
#define ZTC_DIST_OPS
include "compiler/Dialect/Dist/DistBase.td"
include "compiler/Dialect/Dist/DistCollectives.td"

def Dist_MeshOp : Dist_Op<"mesh", [Symbol]> {
  let summary = "The ranks as a grid with named axes; their sizes are known at run time only.";
  let description = [{
        dist.mesh @mesh ["data"]

    (C1) there is an axis, and every axis is a name of its own.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrArrayAttr:$axes);
  let assemblyFormat = "$sym_name $axes attr-dict";
  let hasVerifier = 1;
}

def Dist_BucketOp : Dist_Op<"bucket", [Symbol]> {
  let summary = "A flat piece of memory for parameters that are gathered, reduced and updated together.";
  let description = [{
    `parameters` is an array of dictionaries {name, shape, offset} with, where known, {tied, source}: see graph.role in RationaleGraph.md.
    Offsets and lengths count elements. Parameters below `decayed` get weight decay. `layer` is the transformer block that they belong to,
    where it is one. Shards are whole multiples of `quantum` elements, 64 where it is not given.

        dist.bucket @block0 {decayed = 48 : i64, elements = 52 : i64, layer = 0 : i64, trainable,
          parameters = [{name = "a.weight", offset = 0 : i64, shape = array<i64: 8, 6>}, {name = "n.weight", offset = 48 : i64, shape = array<i64: 4>} ]}

    (C1) every parameter has name, shape and offset. (C2) offsets are multiples of 16 elements. (C3) parameters are in ascending order
    and do not overlap. (C4) the last parameter ends at `elements`. (C5) 0 <= decayed <= elements, and no parameter crosses `decayed`.
    (C6) quantum is a positive multiple of 64, and offsets are multiples of it.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, I64Attr:$elements, I64Attr:$decayed, UnitAttr:$trainable, ArrayAttr:$parameters,
                       OptionalAttr<I64Attr>:$layer, OptionalAttr<I64Attr>:$quantum);
  let assemblyFormat = "$sym_name attr-dict";
  let hasVerifier = 1;
}

def Dist_ViewOp : Dist_Op<"view", [Pure, Dist_Aliasing]> {
  let summary = "A parameter in a bucket: an alias.";
  let description = [{
    y holds the elements of `bucket` from `offset` on, row-major.
    (C1) offset >= 0, and offset + the elements of y <= the bucket's, where its type says them (verify-shard looks the others up).
    (C2) equal element types. (C3) the bucket is whole, not a shard: a parameter may span two shards.
  }];
  let arguments = (ins Dist_StoredFlatTensor:$bucket, I64Attr:$offset);
  let results = (outs Dist_StoredTensor:$y);
  let assemblyFormat = "$bucket `[` $offset `]` attr-dict `:` type($bucket) `->` type($y)";
  let hasVerifier = 1;
}

def Dist_OwnMatrixOp : Dist_Op<"own_matrix", [Pure, Dist_Aliasing, AllTypesMatch<["x", "y"]>]> {
  let summary = "The operand on the rank to which a parameter's matrix falls, zeros on all others.";
  let description = [{
        %y = dist.own_matrix %x of "layers.0.q_proj.weight" in @block0_muon : tensor<8x6xbf16>

    Muon makes each direction orthogonal on one rank: what is computed of zeros is zero, and a sum over ranks gives all the matrices. The owner
    is a function of the bucket's shapes and the number of ranks (runtime/Format/MatrixOwners.h). An alias: a rank that is not the owner executes
    nothing that reads it, up to the dist.pack, and the part there is filled with zeros.
    (C1) the bucket has a parameter of this name, where it is known.
  }];
  let arguments = (ins Dist_FloatTensor:$x, StrAttr:$parameter, FlatSymbolRefAttr:$bucket);
  let results = (outs Dist_FloatTensor:$y);
  let assemblyFormat = "$x `of` $parameter `in` $bucket attr-dict `:` type($y)";
  let hasVerifier = 1;
}

def Dist_PackOp : Dist_Op<"pack", [Pure]> {
  let summary = "A bucket made of its parts: an alias, each part is produced at its place.";
  let description = [{
    Part i lies at `offsets[i]`; what no part covers is zero.
    (C1) one offset per part. (C2) parts are in ascending order and do not overlap. (C3) the last part ends within the bucket.
    (C4) equal element types. (C5) the bucket is whole, not a shard.
  }];
  let arguments = (ins Variadic<Dist_FloatTensor>:$parts, DenseI64ArrayAttr:$offsets);
  let results = (outs Dist_FlatTensor:$bucket);
  let assemblyFormat = "$parts `at` $offsets attr-dict `:` type($parts) `->` type($bucket)";
  let hasVerifier = 1;
}

def Dist_CopyOp : Dist_Op<"copy", [Pure, AllTypesMatch<["x", "y"]>]> {
  let summary = "The operand's elements at another place; stands only where phase `assign` found no way around it.";
  let description = [{ (C1) operand and result have one type. }];
  let arguments = (ins Dist_FloatTensor:$x);
  let results = (outs Dist_FloatTensor:$y);
  let assemblyFormat = "$x attr-dict `:` type($y)";
}
#endif
