// Weights that ranks gather as fp8 codes: what a rank does with its shard before. These ops have a header of their own (Fp8.h): few files know of them.
#ifndef ZTC_DIST_FP8
#define ZTC_DIST_FP8
include "compiler/Dialect/Dist/DistBase.td"
include "compiler/Interfaces/LibraryCall.td"

def Dist_Workspace : DeclareOpInterfaceMethods<LibraryCallOpInterface, ["getWorkspace"]>;

def Dist_Maxima : 1DTensorOf<[F32]>;

def Dist_ShardAmaxOp : Dist_Op<"shard_amax", [Pure, Dist_Workspace]> {
  let summary = "The absolute maxima of what this rank has of ranges of buckets.";
  let description = [{
        %m = dist.shard_amax %a, %b ranges [0, 0, 512, 0, 512, 768, 1, 0, 512]
            : tensor<?xbf16, #dist.shard<@block0>>, tensor<?xbf16, #dist.shard<@block1>> -> tensor<3xf32>

    `ranges` has three numbers a range: of which operand's bucket it is, its first element and its end. m[i] is the largest magnitude of the elements of
    range i that lie in this rank's shard, 0 where none does, NaN where one is. Nothing is rounded: the largest over all ranks is that of the whole range.
    (C1) operands are shards of one element type. (C2) ranges have three numbers each, 0 <= operand < their number, 0 <= begin < end, multiples of 16.
    (C3) m has an element a range.
  }];
  let arguments = (ins Variadic<Dist_FlatTensor>:$shards, DenseI64ArrayAttr:$ranges);
  let results = (outs Dist_Maxima:$amax);
  let assemblyFormat = "$shards `ranges` $ranges attr-dict `:` type($shards) `->` type($amax)";
  let hasVerifier = 1;
}

def Dist_AllReduceMaxOp : Dist_Op<"all_reduce_max", [Dist_WholeCollective, AllTypesMatch<["x", "y"]>]> {
  let summary = "The maxima of numbers over all ranks.";
  let description = [{
        %m = dist.all_reduce_max %a axis "data" : tensor<3xf32>

    y[i] is the largest of all ranks' x[i], which are not negative; NaN where one is. (C1) operand and result have one type.
  }];
  let arguments = (ins Dist_Maxima:$x, StrAttr:$axis);
  let results = (outs Dist_Maxima:$y);
  let assemblyFormat = "$x `axis` $axis attr-dict `:` type($y)";
}

def Dist_AllReduceMaxStartOp : Dist_Op<"all_reduce_max_start", [Dist_CollectiveStart]> {
  let summary = "Starts an all_reduce_max.";
  let description = [{
    (C1) what is pending has the operand's type. (C4) exactly one op takes what is pending, and it is the done of this collective.
  }];
  let arguments = (ins Dist_Maxima:$x, StrAttr:$axis, OptionalAttr<I64Attr>:$order);
  let results = (outs Dist_PendingType:$pending);
  let assemblyFormat = "$x `axis` $axis attr-dict `:` type($x) `->` qualified(type($pending))";
  let hasVerifier = 1;
}

def Dist_AllReduceMaxDoneOp : Dist_Op<"all_reduce_max_done", [Dist_CollectiveDone, TypesMatchWith<"the result is what was started", "pending", "y",
                                                              "::llvm::cast<PendingType>($_self).getResult()">]> {
  let summary = "Waits for an all_reduce_max.";
  let description = [{ (C1) the operand comes from dist.all_reduce_max_start. }];
  let arguments = (ins Dist_PendingType:$pending);
  let results = (outs AnyRankedTensor:$y);
  let assemblyFormat = "$pending attr-dict `:` qualified(type($pending))";
  let hasVerifier = 1;
}

def Dist_ShardCodesOp : Dist_Op<"shard_codes", [Pure, Dist_Workspace]> {
  let summary = "The fp8 codes of this rank's shard of a bucket, with a scale for each of its ranges.";
  let description = [{
        %c, %s:2 = dist.shard_codes %a amax %m[0] ranges [0, 512, 512, 768]
            : tensor<?xbf16, #dist.shard<@block0>>, tensor<3xf32> -> tensor<?xf8E4M3FN, #dist.shard<@block0>>, tensor<2xf32>, tensor<2xf32>

    `ranges` has two numbers a range, its first element and its end; the largest magnitude of range i is amax[first + i]. Scales and codes are those that
    graph.quantize_fp8 gives of the whole range: scale[1] = F / max(amax, 1e-12), scale[0] its inverse, a code the f32 product rounded to nearest even and
    saturated. What lies in no range is not written. The result stands at the rank's place of what gathers it.
    (C1) the operand and the codes are shards of one bucket. (C2) ranges have two numbers each, 0 <= begin < end, multiples of 16. (C3) there is a scale of two
    elements for each range, and amax has its element.
  }];
  let arguments = (ins Dist_FlatTensor:$shard, Dist_Maxima:$amax, I64Attr:$first, DenseI64ArrayAttr:$ranges);
  let results = (outs Dist_StoredFlatTensor:$codes, Variadic<1DTensorOf<[F32]>>:$scales);
  let assemblyFormat = "$shard `amax` $amax `[` $first `]` `ranges` $ranges attr-dict `:` type($shard) `,` type($amax) `->` type($codes) `,` type($scales)";
  let hasVerifier = 1;
}
#endif
