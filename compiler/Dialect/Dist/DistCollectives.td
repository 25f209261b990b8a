// What changes a layout: own_shard for nothing, collectives over an axis of the mesh, whole or as start and done.
#ifndef ZTC_DIST_COLLECTIVES
#define ZTC_DIST_COLLECTIVES
include "compiler/Dialect/Dist/DistBase.td"

def Dist_OwnShardOp : Dist_Op<"own_shard", [Pure, Dist_Aliasing]> {
  let summary = "This rank's shard of a whole bucket: an alias.";
  let description = [{
        %s = dist.own_shard %f : tensor<?xf32, #dist.full<@b>> -> tensor<?xf32, #dist.shard<@b>>

    (C1) the operand is full, the result a shard. (C2) they belong to one bucket. (C3) equal element types.
  }];
  let arguments = (ins Dist_StoredFlatTensor:$full);
  let results = (outs Dist_StoredFlatTensor:$shard);
  let assemblyFormat = "$full attr-dict `:` type($full) `->` type($shard)";
  let hasVerifier = 1;
}

/// A collective is not pure, though nothing but its result can be seen: all ranks run the same ones in the same order, so none may be
/// merged with another (the second gather of a bucket with the first) or dropped.
class Dist_Collective<string mnemonic, string operand> : Dist_Op<mnemonic, [Dist_WholeCollective]> {
  let assemblyFormat = "$" # operand # " `axis` $axis attr-dict `:` type($" # operand # ") `->` type($y)";
  let hasVerifier = 1;
}
/// `order` is the start's place in the one launch order of its function, equal on all ranks (see OrderCollectives).
class Dist_StartOp<string mnemonic, string operand> : Dist_Op<mnemonic, [Dist_CollectiveStart]> {
  let results = (outs Dist_PendingType:$pending);
  let assemblyFormat = "$" # operand # " `axis` $axis attr-dict `:` type($" # operand # ") `->` qualified(type($pending))";
  let hasVerifier = 1;
}
class Dist_DoneOp<string mnemonic> : Dist_Op<mnemonic, [Dist_CollectiveDone, TypesMatchWith<"the result is what was started", "pending", "y",
                                                                      "::llvm::cast<PendingType>($_self).getResult()">]> {
  let arguments = (ins Dist_PendingType:$pending);
  let results = (outs AnyRankedTensor:$y);
  let assemblyFormat = "$pending attr-dict `:` qualified(type($pending))";
  let hasVerifier = 1;
}

def Dist_AllGatherOp : Dist_Collective<"all_gather", "shard"> {
  let summary = "All shards of a bucket, one after the other in rank order: the whole bucket.";
  let description = [{
        %f = dist.all_gather %s axis "data" : tensor<?xf32, #dist.shard<@b>> -> tensor<?xf32, #dist.full<@b>>

    Where the operand is the own shard of the storage that the result gets, a rank writes the other shards only.
    (C1) the operand is a shard, the result full. (C2) they belong to one bucket. (C3) equal element types.
  }];
  let arguments = (ins Dist_StoredFlatTensor:$shard, StrAttr:$axis);
  let results = (outs Dist_StoredFlatTensor:$y);
}

def Dist_ReduceScatterOp : Dist_Collective<"reduce_scatter", "full"> {
  let summary = "The sum of a bucket over all ranks, in rank order; each rank gets its own shard of it.";
  let description = [{
    y[i] = ((g0[i] + g1[i]) + g2[i]) + ..., added in f32, rounded once to the element type and written over the own shard of the operand; the
    rest of the operand is lost.
    `only_last`: in the micro-steps before the last one of a step nothing is sent, and y is the own shard as it is.

        %s = dist.reduce_scatter %f axis "data" {only_last} : tensor<?xf32, #dist.full<@b>> -> tensor<?xf32, #dist.shard<@b>>

    (C1) the operand is full, the result a shard. (C2) they belong to one bucket. (C3) equal element types.
  }];
  let arguments = (ins Dist_FlatTensor:$full, StrAttr:$axis, UnitAttr:$only_last);
  let results = (outs Dist_FlatTensor:$y);
}

def Dist_AllReduceOp : Dist_Op<"all_reduce", [Dist_WholeCollective, AllTypesMatch<["x", "y"]>]> {
  let summary = "The sum of a scalar over all ranks, in rank order.";
  let description = [{ `%y = dist.all_reduce %x axis "data" : tensor<f32>`. (C1) operand and result have one type, that of a float scalar. }];
  let arguments = (ins Dist_Scalar:$x, StrAttr:$axis);
  let results = (outs Dist_Scalar:$y);
  let assemblyFormat = "$x `axis` $axis attr-dict `:` type($y)";
}

def Dist_AllGatherStartOp : Dist_StartOp<"all_gather_start", "shard"> {
  let summary = "Starts an all_gather; until its done the storage of the result belongs to it.";
  let description = [{
        %p = dist.all_gather_start %s axis "data" {order = 0 : i64} : tensor<?xf32, #dist.shard<@b>> -> !dist.pending<tensor<?xf32, #dist.full<@b>>>
        %f = dist.all_gather_done %p : !dist.pending<tensor<?xf32, #dist.full<@b>>>

    (C1) the operand is a shard, what is pending is full. (C2) they belong to one bucket. (C3) equal element types. (C4) exactly one op
    takes what is pending, and it is the done of this collective.
  }];
  let arguments = (ins Dist_StoredFlatTensor:$shard, StrAttr:$axis, OptionalAttr<I64Attr>:$order);
}
def Dist_AllGatherDoneOp : Dist_DoneOp<"all_gather_done"> {
  let summary = "Waits for an all_gather.";
  let description = [{ (C1) the operand comes from dist.all_gather_start. }];
}

def Dist_ReduceScatterStartOp : Dist_StartOp<"reduce_scatter_start", "full"> {
  let summary = "Starts a reduce_scatter; until its done the storage of the operand belongs to it.";
  let description = [{
    (C1) the operand is full, what is pending a shard. (C2) they belong to one bucket. (C3) equal element types. (C4) exactly one op
    takes what is pending, and it is the done of this collective.
  }];
  let arguments = (ins Dist_FlatTensor:$full, StrAttr:$axis, OptionalAttr<I64Attr>:$order, UnitAttr:$only_last);
}
def Dist_ReduceScatterDoneOp : Dist_DoneOp<"reduce_scatter_done"> {
  let summary = "Waits for a reduce_scatter.";
  let description = [{ (C1) the operand comes from dist.reduce_scatter_start. }];
}

def Dist_AllReduceStartOp : Dist_StartOp<"all_reduce_start", "x"> {
  let summary = "Starts an all_reduce.";
  let description = [{
    (C1) what is pending has the operand's type. (C4) exactly one op takes what is pending, and it is the done of this collective.
  }];
  let arguments = (ins Dist_Scalar:$x, StrAttr:$axis, OptionalAttr<I64Attr>:$order);
}
def Dist_AllReduceDoneOp : Dist_DoneOp<"all_reduce_done"> {
  let summary = "Waits for an all_reduce.";
  let description = [{ (C1) the operand comes from dist.all_reduce_start. }];
}
#endif
