#include "passes/Sharding/GatherRuns.h"
#include "compiler/Analysis/StepKinds.h"
#include "llvm/ADT/SmallSet.h"

using namespace mlir;

namespace ztc {
namespace {

/// As many buckets of other blocks between two uses end a run: memory of one is in flight anyhow.
constexpr unsigned kBucketsBetweenRuns = 2;

struct Use {
  unsigned position, bucket;
  OpOperand *operand;
};

/// Reads of `value` by ops that compute something, through aliases.
void collectReads(Value value, SmallVectorImpl<OpOperand *> &reads) {
  for (OpOperand &use : value.getUses()) {
    if (aliasOf(use.getOwner()))
      collectReads(use.getOwner()->getResult(0), reads);
    else
      reads.push_back(&use);
  }
}

std::vector<Use> usesInOrder(ArrayRef<GatheredBucket> buckets, const DenseMap<Operation *, unsigned> &positions) {
  std::vector<Use> uses;
  for (auto [index, bucket] : llvm::enumerate(buckets)) {
    SmallVector<OpOperand *> reads;
    collectReads(dist::AllGatherOp(bucket.gather).getY(), reads);
    for (OpOperand *read : reads)
      uses.push_back({positions.lookup(read->getOwner()), unsigned(index), read});
  }
  llvm::stable_sort(uses, [](const Use &a, const Use &b) {
    return std::tuple(a.position, a.operand->getOperandNumber()) <
           std::tuple(b.position, b.operand->getOperandNumber());
  });
  return uses;
}

/// Cuts the uses of each bucket where others are used in between; those of the same block, which are read
/// by turns, do not count.
std::vector<GatherRun> cutRuns(ArrayRef<Use> uses, ArrayRef<GatheredBucket> buckets) {
  const size_t bucketCount = buckets.size();
  std::vector<GatherRun> runs;
  SmallVector<int> open(bucketCount, -1);                        // the run that a bucket's next use may join
  std::vector<llvm::SmallSet<unsigned, 4>> between(bucketCount); // buckets used since a bucket's last use
  for (const Use &use : uses) {
    int &run = open[use.bucket];
    if (run < 0 || between[use.bucket].size() >= kBucketsBetweenRuns) {
      run = int(runs.size());
      runs.push_back({use.bucket, {}, use.position, use.position});
    }
    runs[run].uses.push_back(use.operand);
    runs[run].lastPosition = use.position;
    between[use.bucket].clear();
    for (unsigned other = 0; other < bucketCount; ++other)
      if (other != use.bucket && open[other] >= 0 &&
          (buckets[other].layer < 0 || buckets[other].layer != buckets[use.bucket].layer))
        between[other].insert(use.bucket);
  }
  return runs;
}

/// Joins the two runs next to the turning point, from inside outwards, while that keeps little, and no two blocks:
/// after the turning point those would be there beside what is gathered ahead.
void joinAcross(std::vector<GatherRun> &runs, ArrayRef<GatheredBucket> buckets, unsigned lossOp) {
  struct Pair {
    int before = -1, after = -1;
  };
  SmallVector<Pair> pairs(buckets.size());
  int64_t kept = 0, keptLayer = -1;
  for (auto [index, run] : llvm::enumerate(runs)) {
    Pair &pair = pairs[run.bucket];
    if (run.lastPosition <= lossOp)
      pair.before = int(index);
    else if (run.firstPosition > lossOp && pair.after < 0)
      pair.after = int(index);
    else if (run.firstPosition <= lossOp) {
      kept += buckets[run.bucket].elements;
      keptLayer = std::max(keptLayer, buckets[run.bucket].layer);
    }
  }
  llvm::erase_if(pairs, [](const Pair &pair) { return pair.before < 0 || pair.after < 0; });
  llvm::sort(pairs,
             [&](const Pair &a, const Pair &b) { return runs[a.before].lastPosition > runs[b.before].lastPosition; });
  for (const Pair &pair : pairs) {
    GatherRun &before = runs[pair.before], &after = runs[pair.after];
    int64_t elements = buckets[before.bucket].elements, layer = buckets[before.bucket].layer;
    if (kept >= elements || (layer >= 0 && keptLayer >= 0 && layer != keptLayer))
      break;
    kept += elements;
    keptLayer = std::max(keptLayer, layer);
    before.uses.append(after.uses);
    before.lastPosition = after.lastPosition;
    after.uses.clear();
  }
  llvm::erase_if(runs, [](const GatherRun &run) { return run.uses.empty(); });
}

} // namespace

std::vector<GatherRun> findGatherRuns(ArrayRef<GatheredBucket> buckets, Operation *lossOp) {
  if (buckets.empty())
    return {};
  DenseMap<Operation *, unsigned> positions;
  for (auto [position, op] : llvm::enumerate(*buckets.front().gather->getBlock()))
    positions[&op] = unsigned(position);
  std::vector<GatherRun> runs = cutRuns(usesInOrder(buckets, positions), buckets);
  if (lossOp)
    joinAcross(runs, buckets, positions.lookup(lossOp));
  return runs;
}

} // namespace ztc
