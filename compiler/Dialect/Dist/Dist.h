// The dist dialect: flat buckets, their views, packs and layouts, and collectives. See RationaleDist.md.
#pragma once
#include "compiler/Interfaces/Interfaces.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/IR/TensorEncoding.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace ztc::dist {

/// Parameters start at multiples of this many elements of their bucket.
inline constexpr int64_t kParameterAlignment = 16;

/// One entry of dist.bucket's `parameters`. Offsets in elements of the bucket; shape in the checkpoint's orientation.
struct BucketParameter {
  mlir::StringAttr name;
  llvm::ArrayRef<int64_t> shape;
  int64_t offset = 0;
  mlir::ArrayAttr tied;        ///< further checkpoint names, or null
  mlir::DictionaryAttr source; ///< where the bytes are, or null
  int64_t elements() const;
};

/// Reads an entry that the verifier has accepted.
BucketParameter readBucketParameter(mlir::Attribute entry);
/// Builds an entry.
mlir::DictionaryAttr makeBucketParameter(mlir::StringAttr name, llvm::ArrayRef<int64_t> shape, int64_t offset,
                                         mlir::ArrayAttr tied, mlir::DictionaryAttr source);

/// Module attribute, i64: the ZeRO stage 0..3 that the layouts follow.
inline constexpr llvm::StringLiteral kZero = "dist.zero";
/// Op, from phase `schedule` on, and the steps that it becomes: the name of the parameter to whose owner it belongs.
inline constexpr llvm::StringLiteral kOwnedParameter = "dist.owned_parameter";
/// Step, beside that: all ranks but the owner execute it.
inline constexpr llvm::StringLiteral kUnlessOwner = "dist.unless_owner";
/// The mesh axis over which data is parallel, and the mesh's symbol.
inline constexpr llvm::StringLiteral kDataAxis = "data", kMesh = "mesh";

/// The type of a whole bucket, and that of a rank's shard of it.
mlir::RankedTensorType fullType(llvm::StringRef bucket, mlir::Type elementType);
mlir::RankedTensorType shardType(llvm::StringRef bucket, mlir::Type elementType);
bool isFull(mlir::Type type);
bool isShard(mlir::Type type);
/// The bucket that a full or shard type names; null for any other type.
mlir::FlatSymbolRefAttr bucketOf(mlir::Type type);

/// Traits: a collective in one op; the op that starts one; the op that waits for it.
template <typename Op> class WholeCollective : public mlir::OpTrait::TraitBase<Op, WholeCollective> {};
template <typename Op> class CollectiveStart : public mlir::OpTrait::TraitBase<Op, CollectiveStart> {};
template <typename Op> class CollectiveDone : public mlir::OpTrait::TraitBase<Op, CollectiveDone> {};

} // namespace ztc::dist

#include "compiler/Dialect/Dist/DistDialect.h.inc"
#define GET_ATTRDEF_CLASSES
#include "compiler/Dialect/Dist/DistAttributes.h.inc"
#define GET_TYPEDEF_CLASSES
#include "compiler/Dialect/Dist/DistTypes.h.inc"
#define GET_OP_CLASSES
#include "compiler/Dialect/Dist/DistOps.h.inc"
