// Reference rules of buckets (views are slices, packs put parts at their places) and of collectives (every rank sees
// everybody's tensors, and takes from them what the op says).
#include "compiler/Dialect/Dist/Fp8.h"
#include "compiler/Reference/Rendezvous.h"
#include "runtime/Core/Fp8.h"
#include "runtime/Format/MatrixOwners.h"
#include <cmath>
#include <limits>

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

/// The larger of two magnitudes; NaN where one is.
double largerMagnitude(double a, double b) {
  return std::isnan(a) || std::isnan(b) ? std::numeric_limits<double>::quiet_NaN() : std::max(a, b);
}

/// Calls `body` with the elements, of this rank's shard, that lie in elements [begin, end) of its bucket.
template <typename Body>
void forOwnElements(const Tensor &shard, int64_t begin, int64_t end, const Interpreter &interpreter, Body body) {
  const int64_t own = int64_t(interpreter.getOptions().rank) * shard.count();
  for (int64_t i = std::max(begin, own); i < std::min(end, own + shard.count()); ++i)
    body(i - own);
}

void runShardAmax(dist::ShardAmaxOp op, Operands operands, Results results, Interpreter &interpreter) {
  const ArrayRef<int64_t> ranges = op.getRanges();
  for (size_t i = 0; i < ranges.size() / 3; ++i) {
    const Tensor &shard = *operands[size_t(ranges[3 * i])];
    double largest = 0;
    forOwnElements(shard, ranges[3 * i + 1], ranges[3 * i + 2], interpreter,
                   [&](int64_t e) { largest = largerMagnitude(largest, std::abs(shard.reals[size_t(e)])); });
    results[0].reals[i] = largest;
  }
}

/// As runQuantizeFp8: without rounding codes are numbers times the scale.
void runShardCodes(dist::ShardCodesOp op, Operands operands, Results results, Interpreter &interpreter) {
  const Tensor &shard = *operands[0], &amax = *operands[1];
  const bool rounds = interpreter.getOptions().precision == Precision::F32;
  const Fp8Format format = Fp8Format::E4m3;
  const ArrayRef<int64_t> ranges = op.getRanges();
  for (size_t i = 0; i < ranges.size() / 2; ++i) {
    const double largest = amax.reals[op.getFirst() + i];
    const Fp8Scale rounded = fp8Scale(float(largest), format);
    const double exact = largestFp8(format) / std::max(largest, double(kSmallestFp8Range));
    results[1 + i].reals =
        rounds ? std::vector<double>{rounded.inverse, rounded.scale} : std::vector<double>{1 / exact, exact};
    forOwnElements(shard, ranges[2 * i], ranges[2 * i + 1], interpreter, [&](int64_t e) {
      const double value = shard.reals[size_t(e)];
      results[0].reals[size_t(e)] =
          rounds ? fromFp8(toFp8(float(value) * rounded.scale, format), format) : value * exact;
    });
  }
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

LogicalResult allReduceMax(Operation *, Operands operands, Results results, Interpreter &interpreter) {
  FailureOr<std::vector<Tensor>> maxima = everybodys(*operands[0], interpreter);
  if (failed(maxima))
    return failure();
  results[0] = maxima->front();
  for (const Tensor &other : ArrayRef(*maxima).drop_front())
    for (auto [mine, theirs] : llvm::zip_equal(results[0].reals, other.reals))
      mine = largerMagnitude(mine, theirs);
  return success();
}

/// A done gives what its start has computed.
LogicalResult pass(Operation *, Operands operands, Results results, Interpreter &) {
  results[0] = *operands[0];
  return success();
}

} // namespace

/// Zeros, which results are to begin with, but on the rank that owns the matrix.
void runOwnMatrix(dist::OwnMatrixOp op, Operands operands, Results results, Interpreter &interpreter) {
  const InterpreterOptions &options = interpreter.getOptions();
  std::vector<uint64_t> costs;
  size_t own = 0;
  auto bucket = op->getParentOfType<ModuleOp>().lookupSymbol<dist::BucketOp>(op.getBucket());
  for (Attribute entry : bucket.getParameters()) {
    const dist::BucketParameter parameter = dist::readBucketParameter(entry);
    if (parameter.name.getValue() == op.getParameter())
      own = costs.size();
    costs.push_back(orthogonalizationFlops({parameter.shape.data(), parameter.shape.size()}));
  }
  const unsigned world = options.ranks ? options.ranks->size() : 1;
  if (balancedOwners(costs, world)[own] == options.rank)
    results[0] = *operands[0];
}

void addDistRules(RuleTable &table) {
  table.add<dist::OwnMatrixOp>(runOwnMatrix);
  table.add<dist::ViewOp>(runView);
  table.add<dist::PackOp>(runPack);
  table.add<dist::ShardAmaxOp>(runShardAmax);
  table.add<dist::ShardCodesOp>(runShardCodes);
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
  for (StringRef name : {dist::AllReduceMaxOp::getOperationName(), dist::AllReduceMaxStartOp::getOperationName()})
    table.addNamed(name, allReduceMax);
  for (StringRef name : {dist::AllGatherDoneOp::getOperationName(), dist::ReduceScatterDoneOp::getOperationName(),
                         dist::AllReduceDoneOp::getOperationName(), dist::AllReduceMaxDoneOp::getOperationName()})
    table.addNamed(name, pass);
}

} // namespace ztc
