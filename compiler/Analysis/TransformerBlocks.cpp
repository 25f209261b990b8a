#include "compiler/Analysis/TransformerBlocks.h"
#include "compiler/Analysis/StepKinds.h"
#include "compiler/Dialect/Graph/Roles.h"
#include <algorithm>

using namespace mlir;

namespace ztc {
namespace {

/// What is computed of parameters alone: the block they are of, or -1.
class Weights {
public:
  explicit Weights(func::FuncOp function) {
    const BucketTable buckets(function->getParentOfType<ModuleOp>());
    for (BlockArgument argument : function.getArguments()) {
      const unsigned index = argument.getArgNumber();
      auto layer = function.getArgAttrOfType<IntegerAttr>(index, graph::kLayer);
      if (auto bucket = function.getArgAttrOfType<FlatSymbolRefAttr>(index, graph::kBucket))
        layers[argument] = buckets.layer(bucket);
      else if (graph::roleOf(function, index) == graph::Role::Parameter)
        layers[argument] = layer ? layer.getInt() : -1;
    }
  }

  bool contains(Value value) const { return layers.contains(value); }
  int64_t layerOf(Value value) const { return layers.lookup(value); }

  /// Takes the results of `op` in where it reads nothing but weights and constants.
  bool takeIn(Operation *op) {
    bool readsWeights = false;
    int64_t layer = -1;
    for (Value operand : op->getOperands()) {
      if (contains(operand)) {
        readsWeights = true;
        layer = std::max(layer, layerOf(operand));
      } else if (!operand.getDefiningOp() || !operand.getDefiningOp()->hasTrait<OpTrait::ConstantLike>()) {
        return false;
      }
    }
    for (Value result : op->getResults())
      if (readsWeights)
        layers[result] = layer;
    return readsWeights;
  }

private:
  llvm::DenseMap<Value, int64_t> layers;
};

/// What the rules find of one op on the way.
struct Member {
  int64_t layer = -1;
  bool ownsLayer = false;     ///< it reads a parameter of a block
  bool readsOthers = false;   ///< it reads a parameter of no block
  bool reachesBlocks = false; ///< an op that reads a block's parameter depends on it
  bool isLate = false;        ///< it comes after the last block
  bool couldMove = false;     ///< it reads only what the next block reads anyway
};

class Finder {
public:
  Finder(func::FuncOp function, Operation *end) : weights(function) {
    for (Operation &op : function.getBody().front()) {
      if (&op == end)
        break;
      ops.push_back(&op);
    }
  }

  llvm::DenseMap<Operation *, int64_t> run() {
    for (Operation *op : ops)
      readWeights(op);
    for (Operation *op : llvm::reverse(ops))
      findReach(op);
    for (Operation *op : ops)
      findLayer(op);
    for (Operation *op : ops)
      members[op].couldMove = readsOnlyWhatIsReadLater(op);
    for (Operation *op : llvm::reverse(ops))
      move(op);
    llvm::DenseMap<Operation *, int64_t> layers;
    for (Operation *op : ops)
      layers[op] = members[op].layer;
    return layers;
  }

private:
  void readWeights(Operation *op) {
    Member member;
    for (Value operand : op->getOperands())
      if (weights.contains(operand)) {
        const int64_t layer = weights.layerOf(operand);
        member.ownsLayer |= layer >= 0;
        member.readsOthers |= layer < 0;
        member.layer = std::max(member.layer, layer);
      }
    // What is made of parameters alone belongs to them, and carries no data.
    if (weights.takeIn(op))
      member.readsOthers = false;
    members[op] = member;
  }

  void findReach(Operation *op) {
    Member &member = members[op];
    for (Operation *user : op->getUsers())
      if (auto found = members.find(user); found != members.end())
        member.reachesBlocks |= found->second.ownsLayer || found->second.reachesBlocks;
  }

  /// The ops whose results `op` reads as data.
  SmallVector<Operation *> sources(Operation *op) const {
    SmallVector<Operation *> found;
    for (Value operand : op->getOperands())
      if (Operation *source = operand.getDefiningOp(); source && !weights.contains(operand) && members.contains(source))
        found.push_back(source);
    return found;
  }

  void findLayer(Operation *op) {
    Member &member = members[op];
    if (member.ownsLayer)
      return;
    for (Operation *source : sources(op)) {
      const Member &read = members[source];
      member.isLate |= read.isLate;
      member.layer = std::max(member.layer, read.layer);
    }
    member.isLate |= member.readsOthers && !member.reachesBlocks && member.layer >= 0;
    if (member.isLate)
      member.layer = -1;
  }

  /// Whether an op of a block after `layer` reads a result of `source`, itself or under another shape.
  bool isReadAfter(Operation *source, int64_t layer) const {
    return llvm::any_of(source->getUsers(), [&](Operation *user) {
      auto found = members.find(user);
      if (found == members.end())
        return false;
      return found->second.layer > layer || (aliasOf(user) && isReadAfter(user, layer));
    });
  }

  bool readsOnlyWhatIsReadLater(Operation *op) const {
    const Member &member = members.at(op);
    const SmallVector<Operation *> read = sources(op);
    auto isReadLater = [&](Operation *source) {
      const Member &of = members.at(source);
      return (of.layer == member.layer && of.couldMove) || isReadAfter(source, member.layer);
    };
    return !member.ownsLayer && !member.isLate && !read.empty() && llvm::all_of(read, isReadLater);
  }

  /// To the first block that reads it, where all its readers are of later blocks.
  void move(Operation *op) {
    Member &member = members[op];
    if (!member.couldMove)
      return;
    // Readers after the loss belong to the backward part.
    int64_t first = INT64_MAX;
    for (Operation *user : op->getUsers())
      if (auto found = members.find(user); found != members.end())
        first = std::min(first, found->second.layer);
    if (first != INT64_MAX && first > member.layer)
      member.layer = first;
  }

  Weights weights;
  SmallVector<Operation *> ops;
  llvm::DenseMap<Operation *, Member> members;
};

} // namespace

TransformerBlocks::TransformerBlocks(func::FuncOp function, Operation *end) : layers(Finder(function, end).run()) {
  for (const auto &[op, layer] : layers)
    last_ = std::max(last_, layer);
}

} // namespace ztc
