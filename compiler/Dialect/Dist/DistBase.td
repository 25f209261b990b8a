// The dist dialect, its layouts of flat buckets and its one type.
#ifndef ZTC_DIST_BASE
#define ZTC_DIST_BASE
include "compiler/Interfaces/StorageAlias.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/IR/TensorEncoding.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Dist_Dialect : Dialect {
  let name = "dist";
  let cppNamespace = "::ztc::dist";
  let summary = "Flat buckets, their views and packs, their layouts on a mesh, and what moves them.";
  let description = [{ See RationaleDist.md. Constraints are numbered: the number stands here, in the verifier and in the test. }];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
}

class Dist_Layout<string name, string mnemonic_> : AttrDef<Dist_Dialect, name, [DeclareAttrInterfaceMethods<VerifiableTensorEncoding>]> {
  let mnemonic = mnemonic_;
  let parameters = (ins "::mlir::FlatSymbolRefAttr":$bucket);
  let assemblyFormat = "`<` $bucket `>`";
}

def Dist_ShardAttr : Dist_Layout<"Shard", "shard"> {
  let summary = "Layout: this rank's shard of a bucket.";
  let description = [{
    `tensor<?xf32, #dist.shard<@b>>` holds ceil(n / (W q)) q elements of a bucket of n, q = 64; rank r's start at r times that. What lies
    past the bucket's end is padding.
    (C1) the tensor is 1-D and its length is open.
  }];
}

def Dist_FullAttr : Dist_Layout<"Full", "full"> {
  let summary = "Layout: a whole bucket, padded to W shards.";
  let description = [{
    `tensor<?xf32, #dist.full<@b>>` holds the bucket's n elements, then padding up to W times the length of a shard.
    (C1) the tensor is 1-D and its length is open.
  }];
}

def Dist_PendingType : TypeDef<Dist_Dialect, "Pending"> {
  let mnemonic = "pending";
  let summary = "What a collective that has started will give.";
  let parameters = (ins "::mlir::RankedTensorType":$result);
  let assemblyFormat = "`<` $result `>`";
}

def Dist_Aliasing : DeclareOpInterfaceMethods<StorageAliasOpInterface>;

/// What sends data between ranks: in one op, or as a start and a done. Passes ask for these, not for the ops by name.
class Dist_CommunicationTrait<string name> : NativeOpTrait<name> { let cppNamespace = "::ztc::dist"; }
def Dist_WholeCollective : Dist_CommunicationTrait<"WholeCollective">;
def Dist_CollectiveStart : Dist_CommunicationTrait<"CollectiveStart">;
def Dist_CollectiveDone : Dist_CommunicationTrait<"CollectiveDone">;

class Dist_Op<string mnemonic, list<Trait> traits = []> : Op<Dist_Dialect, mnemonic, traits>;

/// A bucket is 1-D; its length depends on the world size.
def Dist_FlatTensor : 1DTensorOf<[F16, BF16, F32, F64]>;
/// One that only holds what is not trained may hold bytes: weights in fewer bits; fp8 codes of one stand for it where it is gathered.
def Dist_StoredFlatTensor : 1DTensorOf<[F16, BF16, F32, F64, I8, F8E4M3FN]>;
def Dist_StoredTensor : StaticShapeTensorOf<[F16, BF16, F32, F64, I8, F8E4M3FN]>;
def Dist_FloatTensor : StaticShapeTensorOf<[F16, BF16, F32, F64]>;
def Dist_Scalar : 0DTensorOf<[F32, F64]>;
#endif
