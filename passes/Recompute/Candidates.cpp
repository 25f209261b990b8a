#include "passes/Recompute/Candidates.h"
#include "compiler/Analysis/Recomputation.h"
#include "compiler/Analysis/StepKinds.h"
#include "compiler/Dialect/Dist/Fp8.h"
#include "compiler/Dialect/Graph/Fp8.h"

using namespace mlir;

namespace ztc {
namespace {

/// Parameters, also those in fewer bits, and constants are there in backward too, whatever is recomputed.
bool isAlwaysAvailable(Value source) {
  return isa<BlockArgument>(source) || isa<graph::ConstantOp, dist::AllGatherOp>(source.getDefiningOp()) ||
         graph::isMadeOfWeight(source.getDefiningOp());
}

bool isAttention(Operation *op) {
  return isa<graph::AttentionOp>(op);
}

} // namespace

RecomputeCandidates::RecomputeCandidates(func::FuncOp function, Operation *lossOp)
    : block(function.getBody().front()), lossOp(lossOp), blocks(function, lossOp) {
  findNeighbours();
  findGroups();
}

void RecomputeCandidates::findNeighbours() {
  SmallVector<Operation *> forward;
  for (Operation &op : block) {
    if (&op == lossOp)
      break;
    forward.push_back(&op);
  }
  auto isInBlockOf = [&](Operation *op, Operation *other) { return blocks.layerOf(op) == blocks.layerOf(other); };
  for (Operation *op : forward) {
    Neighbours &here = neighbours[op];
    for (Value operand : op->getOperands()) {
      Operation *source = operand.getDefiningOp();
      auto found = source ? neighbours.find(source) : neighbours.end();
      if (found == neighbours.end() || source == op || !isInBlockOf(source, op))
        continue;
      const Neighbours before = found->second;
      here.afterAttention |= before.afterAttention || isAttention(source);
      here.afterProjection |= before.afterProjection || (before.afterAttention && graph::isProduct(source));
    }
  }
  for (Operation *op : llvm::reverse(forward))
    for (Operation *user : op->getUsers()) {
      auto found = neighbours.find(user);
      if (found == neighbours.end() || !isInBlockOf(user, op))
        continue;
      const Neighbours after = found->second;
      neighbours[op].beforeAttention |= after.beforeAttention || isAttention(user);
      neighbours[op].beforeProduct |= after.beforeProduct || graph::isProduct(user);
    }
}

RecomputeGroup RecomputeCandidates::groupOfCall(Operation *call) const {
  const Neighbours around = neighbours.lookup(call);
  if (isAttention(call))
    return RecomputeGroup::Attention;
  if (around.beforeAttention)
    return RecomputeGroup::Qkv;
  if (around.afterAttention && !around.afterProjection)
    return RecomputeGroup::Projection;
  return around.beforeProduct ? RecomputeGroup::Mlp : RecomputeGroup::Down;
}

void RecomputeCandidates::findGroups() {
  SmallVector<Operation *> open;
  for (Operation &op : block) {
    if (&op == lossOp)
      break;
    bool isOutside = blocks.layerOf(&op) < 0 && isLibraryCall(&op);
    if (!isOutside && !graph::isMadeOfWeight(&op) && !graph::isAmaxOfWeight(&op) &&
        !isa<graph::RouteOp, dist::ShardAmaxOp, dist::ShardCodesOp, graph::Fp8ScalesOp>(op) && !isFree(&op) &&
        !isCollective(&op) && op.getNumOperands() != 0 && !isReadByAnotherLayer(&op))
      open.push_back(&op);
  }
  // A group takes in what its products, and those of the groups before, make possible.
  llvm::DenseMap<Operation *, RecomputeGroup> found;
  for (unsigned g = 0; g < kRecomputeGroups; ++g)
    for (Operation *op : open) {
      if (groups.contains(op))
        continue;
      auto group = RecomputeGroup(g);
      // Codes, and rows in another order, are worth what they are made of, as an elementwise op's results are.
      bool isIts = isLibraryCall(op) && !graph::isEncoding(op) && !isa<graph::DispatchOp>(op)
                       ? groupOfCall(op) == group
                       : llvm::all_of(op->getOperands(), [&](Value value) { return isThere(value); });
      if (isIts)
        groups[op] = found[op] = group;
    }
  groups.clear();
  for (Operation *op : open) {
    auto group = found.find(op);
    // What reads something that nothing keeps comes with the whole block, and keeps that.
    groups[op] = group == found.end() ? RecomputeGroup::Attention : group->second;
    layers[op] = blocks.layerOf(op);
  }
}

bool RecomputeCandidates::isThere(Value value) const {
  Value source = resolveAlias(value).source;
  return isAlwaysAvailable(source) || groups.contains(source.getDefiningOp()) || isReadByBackward(source, lossOp);
}

/// The residual stream: recomputed, it would need all blocks before.
bool RecomputeCandidates::isReadByAnotherLayer(Operation *op) const {
  int64_t layer = blocks.layerOf(op);
  SmallVector<Operation *> todo{op};
  while (!todo.empty())
    for (Operation *user : todo.pop_back_val()->getUsers()) {
      if (aliasOf(user))
        todo.push_back(user);
      else if (!lossOp->isBeforeInBlock(user) && blocks.layerOf(user) != layer)
        return true;
    }
  return false;
}

/// Whether backward or a clone of `marked` reads `value`.
bool RecomputeCandidates::isNeeded(Value value, const llvm::SetVector<Operation *> &marked) const {
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    return aliasOf(user) ? isNeeded(user->getResult(0), marked)
                         : lossOp->isBeforeInBlock(user) || marked.contains(user);
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
      if (isReadByBackward(result, lossOp))
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
    if (element.layer >= 0 && (element.layer < blocks.last() || element.group == RecomputeGroup::Pointwise))
      choice.add(element.layer, element.group);
  return choice;
}

} // namespace ztc
