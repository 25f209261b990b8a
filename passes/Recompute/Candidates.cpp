#include "passes/Recompute/Candidates.h"
#include "compiler/Analysis/Recomputation.h"
#include "compiler/Analysis/StepKinds.h"
#include "compiler/Dialect/Dist/Dist.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Support/Location.h"

using namespace mlir;

namespace ztc {
namespace {

// Stages of a block's values: where they stand between its input and its output.
constexpr unsigned kBeforeAttention = 0, kAttended = 1, kProjected = 2, kWide = 3, kDown = 4;

/// Parameters, also those in fewer bits, and constants are there in backward too, whatever is recomputed.
bool isThereAnyhow(Value source) {
  return isa<BlockArgument>(source) ||
         isa<graph::ConstantOp, dist::AllGatherOp, graph::DequantizeOp>(source.getDefiningOp());
}

bool isAttention(Operation *op) {
  return isa<graph::AttentionOp>(op);
}

/// The group of a library call by the stage of its result.
RecomputeGroup groupOfStage(Operation *op, unsigned stage) {
  if (isAttention(op))
    return RecomputeGroup::Attention;
  switch (stage) {
  case kBeforeAttention:
    return RecomputeGroup::Qkv;
  case kAttended:
  case kProjected:
    return RecomputeGroup::Projection;
  case kWide:
    return RecomputeGroup::Mlp;
  default:
    return RecomputeGroup::Down;
  }
}

} // namespace

RecomputeCandidates::RecomputeCandidates(Block &block, Operation *turningPoint)
    : block(block), turningPoint(turningPoint) {
  for (Operation &op : block) {
    if (&op == turningPoint)
      break;
    last = std::max(last, layerOf(op.getLoc()));
  }
  findGroups();
}

unsigned RecomputeCandidates::stageOf(Operation *op) const {
  int64_t layer = layerOf(op->getLoc());
  unsigned stage = kBeforeAttention;
  for (Value operand : op->getOperands()) {
    Operation *source = resolveAlias(operand).source.getDefiningOp();
    if (source && layerOf(source->getLoc()) == layer)
      stage = std::max(stage, stages.lookup(source));
  }
  if (isAttention(op))
    return kAttended;
  bool isProduct = isLibraryCall(op) && stage != kBeforeAttention;
  return isProduct ? std::min(stage + 1, kDown) : stage;
}

void RecomputeCandidates::findGroups() {
  SmallVector<Operation *> open;
  for (Operation &op : block) {
    if (&op == turningPoint)
      break;
    stages[&op] = stageOf(&op);
    bool isOutside = layerOf(op.getLoc()) < 0 && isLibraryCall(&op);
    if (!isOutside && !isa<graph::DequantizeOp>(op) && !isFree(&op) && !isCollective(&op) && op.getNumOperands() != 0 &&
        !isReadByAnotherLayer(&op))
      open.push_back(&op);
  }
  // A group takes in what its products, and those of the groups before, make possible.
  llvm::DenseMap<Operation *, RecomputeGroup> found;
  for (unsigned g = 0; g < kRecomputeGroups; ++g)
    for (Operation *op : open) {
      if (groups.contains(op))
        continue;
      auto group = RecomputeGroup(g);
      bool isIts = isLibraryCall(op) ? groupOfStage(op, stages[op]) == group
                                     : llvm::all_of(op->getOperands(), [&](Value value) { return isThere(value); });
      if (isIts)
        groups[op] = found[op] = group;
    }
  groups.clear();
  for (Operation *op : open) {
    auto group = found.find(op);
    // What reads something that nothing keeps comes with the whole block, and keeps that.
    groups[op] = group == found.end() ? RecomputeGroup::Attention : group->second;
    layers[op] = layerOf(op->getLoc());
  }
}

bool RecomputeCandidates::isThere(Value value) const {
  Value source = resolveAlias(value).source;
  return isThereAnyhow(source) || groups.contains(source.getDefiningOp()) || isReadBehind(source, turningPoint);
}

/// The residual stream: recomputed, it would need all blocks before.
bool RecomputeCandidates::isReadByAnotherLayer(Operation *op) const {
  int64_t layer = layerOf(op->getLoc());
  SmallVector<Operation *> todo{op};
  while (!todo.empty())
    for (Operation *user : todo.pop_back_val()->getUsers()) {
      if (aliasOf(user))
        todo.push_back(user);
      else if (!turningPoint->isBeforeInBlock(user) && layerOf(user->getLoc()) != layer)
        return true;
    }
  return false;
}

/// Whether backward or a clone of `marked` reads `value`.
bool RecomputeCandidates::isNeeded(Value value, const llvm::SetVector<Operation *> &marked) const {
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    return aliasOf(user) ? isNeeded(user->getResult(0), marked)
                         : turningPoint->isBeforeInBlock(user) || marked.contains(user);
  });
}

llvm::SetVector<Operation *> RecomputeCandidates::ops(const RecomputeChoice &choice) const {
  llvm::SetVector<Operation *> marked;
  for (auto [op, group] : groups)
    if (choice.has(layers.lookup(op), group))
      marked.insert(op);
  SmallVector<Operation *> all(marked.begin(), marked.end());
  for (Operation *op : llvm::reverse(all))
    if (llvm::none_of(op->getResults(), [&](Value result) { return isNeeded(result, marked); }))
      marked.remove(op);
  return marked;
}

SmallVector<RecomputeElement> RecomputeCandidates::elements() const {
  RecomputeChoice everything;
  for (auto [op, group] : groups)
    everything.add(layers.lookup(op), group);
  std::map<std::pair<int64_t, RecomputeGroup>, RecomputeElement> byPlace;
  for (Operation *op : ops(everything)) {
    RecomputeGroup group = groups.lookup(op);
    int64_t layer = layers.lookup(op);
    auto [found, inserted] = byPlace.try_emplace({layer, group}, RecomputeElement{layer, group, 0, {}});
    found->second.ops.push_back(op);
    for (Value result : op->getResults())
      if (isReadBehind(result, turningPoint))
        found->second.keptBytes += tensorBytes(result.getType());
  }
  SmallVector<RecomputeElement> elements;
  for (auto &[place, element] : byPlace)
    elements.push_back(std::move(element));
  return elements;
}

RecomputeChoice RecomputeCandidates::cheap() const {
  RecomputeChoice choice;
  for (const RecomputeElement &element : elements())
    if (element.group == RecomputeGroup::Pointwise)
      choice.add(element.layer, element.group);
  return choice;
}

RecomputeChoice RecomputeCandidates::wholeLayers() const {
  RecomputeChoice choice;
  for (const RecomputeElement &element : elements())
    if (element.layer >= 0 && (element.layer < last || element.group == RecomputeGroup::Pointwise))
      choice.add(element.layer, element.group);
  return choice;
}

} // namespace ztc
