// Reference rules of buckets (views are slices, packs put parts at their places) and of collectives (every rank sees
// everybody's tensors, and takes from them what the op says).
#include "compiler/Dialect/Dist/Dist.h"
#include "compiler/Reference/Rendezvous.h"

using namespace mlir;

namespace ztc {
namespace {

/// Elements [begin, begin + count) of `from` to those of `to` from `place` on; of bytes, the integers.
void copyElements(const Tensor &from, int64_t begin, int64_t count, Tensor &to, int64_t place) {
  if (from.isReal())
    std::copy_n(from.reals.begin() + begin, count, to.reals.begin() + place);
  else
    std::copy_n(from.integers.begin() + begin, count, to.integers.begin() + place);
}

void runView(dist::ViewOp op, Operands operands, Results results) {
  copyElements(*operands[0], static_cast<int64_t>(op.getOffset()), results[0].count(), results[0], 0);
}

void runPack(dist::PackOp op, Operands operands, Results results) {
  for (auto [part, offset] : llvm::zip(operands, op.getOffsets()))
    llvm::copy(part->reals, results[0].reals.begin() + offset);
}

/// Everybody's tensor, in rank order.
FailureOr<std::vector<Tensor>> everybodys(const Tensor &mine, const Interpreter &interpreter) {
  const InterpreterOptions &options = interpreter.getOptions();
  if (!options.ranks)
    return std::vector<Tensor>{mine};
  return options.ranks->exchange(options.rank, mine);
}

/// The own shard of a whole bucket; `shard` has its length.
void copyOwnShard(const Tensor &full, Tensor &shard, const Interpreter &interpreter) {
  copyElements(full, int64_t(interpreter.getOptions().rank) * shard.count(), shard.count(), shard, 0);
}

LogicalResult gather(Operation *, Operands operands, Results results, Interpreter &interpreter) {
  FailureOr<std::vector<Tensor>> shards = everybodys(*operands[0], interpreter);
  if (failed(shards))
    return failure();
  int64_t place = 0;
  for (const Tensor &shard : *shards) {
    copyElements(shard, 0, shard.count(), results[0], place);
    place += shard.count();
  }
  return success();
}

LogicalResult reduceScatter(Operation *op, Operands operands, Results results, Interpreter &interpreter) {
  if (op->hasAttr("only_last") && !interpreter.getOptions().lastMicrostep) {
    copyOwnShard(*operands[0], results[0], interpreter);
    return success();
  }
  FailureOr<std::vector<Tensor>> fulls = everybodys(*operands[0], interpreter);
  if (failed(fulls))
    return failure();
  copyOwnShard(fulls->front(), results[0], interpreter);
  Tensor addend(results[0].shape, results[0].elementType);
  for (const Tensor &full : ArrayRef(*fulls).drop_front()) {
    copyOwnShard(full, addend, interpreter);
    for (auto [sum, value] : llvm::zip_equal(results[0].reals, addend.reals))
      sum += value;
  }
  return success();
}

LogicalResult allReduce(Operation *, Operands operands, Results results, Interpreter &interpreter) {
  FailureOr<std::vector<Tensor>> scalars = everybodys(*operands[0], interpreter);
  if (failed(scalars))
    return failure();
  results[0] = scalars->front();
  for (const Tensor &scalar : ArrayRef(*scalars).drop_front())
    results[0].reals[0] += scalar.reals[0];
  return success();
}

/// A done gives what its start has computed.
LogicalResult pass(Operation *, Operands operands, Results results, Interpreter &) {
  results[0] = *operands[0];
  return success();
}

} // namespace

void addDistRules(RuleTable &table) {
  table.add<dist::ViewOp>(runView);
  table.add<dist::PackOp>(runPack);
  table.add<dist::CopyOp>([](dist::CopyOp, Operands operands, Results results) { results[0] = *operands[0]; });
  table.addNamed(dist::OwnShardOp::getOperationName(),
                 [](Operation *, Operands operands, Results results, Interpreter &interpreter) {
                   copyOwnShard(*operands[0], results[0], interpreter);
                   return success();
                 });
  for (StringRef name : {dist::AllGatherOp::getOperationName(), dist::AllGatherStartOp::getOperationName()})
    table.addNamed(name, gather);
  for (StringRef name : {dist::ReduceScatterOp::getOperationName(), dist::ReduceScatterStartOp::getOperationName()})
    table.addNamed(name, reduceScatter);
  for (StringRef name : {dist::AllReduceOp::getOperationName(), dist::AllReduceStartOp::getOperationName()})
    table.addNamed(name, allReduce);
  for (StringRef name : {dist::AllGatherDoneOp::getOperationName(), dist::ReduceScatterDoneOp::getOperationName(),
                         dist::AllReduceDoneOp::getOperationName()})
    table.addNamed(name, pass);
}

} // namespace ztc
