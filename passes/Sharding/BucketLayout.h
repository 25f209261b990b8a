// Which parameter lies where: the plan of all buckets, made from the arguments of one function.
#pragma once
#include "compiler/Dialect/Dist/Dist.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <optional>
#include <string>
#include <vector>

namespace ztc {

/// A parameter with its place. Offsets in elements of the bucket.
struct PlacedParameter {
  mlir::StringAttr name;
  mlir::RankedTensorType type;
  mlir::ArrayAttr tied;
  mlir::DictionaryAttr source;
  bool decayed = false, trainable = false;
  double rate = 1;                    ///< what the learning rate is multiplied by
  std::optional<double> changeFactor; ///< of what Muon updates: graph::kChangeFactor
  unsigned bucket = 0;
  int64_t offset = 0;
  unsigned stack = 0; ///< index of the first parameter of the stack that it is read in; its own where it is read alone
};

struct BucketPlan {
  std::string name;
  mlir::Type elementType; ///< of every parameter in it
  bool trainable = false;
  bool isOfMatrices = false; ///< whether Muon updates it
  int64_t elements = 0, decayed = 0;
  int64_t quantum = 0;              ///< parameters and shards begin at multiples of it; 0: of 16, of 64
  int64_t layer = -1;               ///< the transformer block, -1 where it is none's
  std::vector<unsigned> parameters; ///< indices into BucketLayout::parameters, by offset
};

struct BucketLayout {
  std::vector<PlacedParameter> parameters; ///< in the order of the function's arguments
  std::vector<BucketPlan> buckets;         ///< embedding, blocks, rest, head
  llvm::StringMap<unsigned> byName;

  /// The parameter of that name, or null.
  const PlacedParameter *find(llvm::StringRef name) const;
  /// Says of each parameter, of which these are the arguments, which stack it is read in.
  void numberStacks(llvm::ArrayRef<mlir::BlockArgument> arguments);
};

/// Lays out the parameters of `function`. Fails, with a located diagnostic, on two parameters of one name.
llvm::FailureOr<BucketLayout> layOutBuckets(mlir::func::FuncOp function);

} // namespace ztc
