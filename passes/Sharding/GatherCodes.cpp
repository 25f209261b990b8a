#include "compiler/Dialect/Dist/Fp8.h"
#include "compiler/Dialect/Graph/Fp8.h"
#include "compiler/Dialect/Graph/Roles.h"
#include "mlir/IR/Remarks.h"
#include "passes/Sharding/Passes.h"
#include "llvm/ADT/MapVector.h"
#include <map>

#define DEBUG_TYPE "ztc-gather-codes"

using namespace mlir;

namespace ztc {
#define GEN_PASS_DEF_GATHERCODES
#include "passes/Sharding/Passes.h.inc"

namespace {

/// A bucket whose parameters only products in fp8 read, and what reads it in the function.
struct CodedBucket {
  SmallVector<dist::AllGatherOp> gathers;
  std::map<int64_t, int64_t> ranges;           ///< of one scale each: first element to end
  SmallVector<graph::QuantizeFp8Op> quantized; ///< of views of the gathers
  int64_t first = 0;                           ///< the first range's place among all maxima

  int64_t rangeAt(int64_t begin) const { return std::distance(ranges.begin(), ranges.find(begin)); }
};

class CodeGatherer {
public:
  explicit CodeGatherer(func::FuncOp microstep) : function(microstep), builder(microstep.getContext()) {}

  /// Whether a bucket's codes are gathered from now on.
  bool run() {
    for (auto gather : function.getBody().front().getOps<dist::AllGatherOp>())
      if (isa<BlockArgument>(gather.getShard()))
        buckets[gather.getShard()].gathers.push_back(gather);
    buckets.remove_if([&](auto &entry) { return !readsCodesAlone(entry.second); });
    if (buckets.empty())
      return false;
    findMaxima();
    for (auto &[shard, bucket] : buckets)
      for (dist::AllGatherOp gather : bucket.gathers)
        gatherCodes(bucket, gather);
    for (auto &[shard, bucket] : buckets)
      erase(bucket);
    return true;
  }

private:
  /// Whether all that reads the bucket makes codes of whole weights, each of one of several ranges that do not overlap.
  bool readsCodesAlone(CodedBucket &bucket) {
    for (dist::AllGatherOp gather : bucket.gathers)
      for (Operation *user : gather.getY().getUsers()) {
        auto view = dyn_cast<dist::ViewOp>(user);
        if (!view)
          return false;
        const int64_t begin = int64_t(view.getOffset()),
                      end = begin + cast<RankedTensorType>(view.getY().getType()).getNumElements();
        for (Operation *reader : view.getY().getUsers()) {
          auto quantize = dyn_cast<graph::QuantizeFp8Op>(reader);
          if (isa<graph::RowAmaxOp>(reader))
            continue;
          if (!quantize || !quantize.getWeight() || quantize.getX() != view.getY() ||
              !isa<Float8E4M3FNType>(getElementTypeOrSelf(quantize.getCodes().front())))
            return false;
          if (bucket.ranges.try_emplace(begin, end).first->second != end)
            return missed(gather);
          bucket.quantized.push_back(quantize);
        }
      }
    int64_t last = 0;
    for (auto [begin, end] : bucket.ranges) {
      if (begin < last || begin % int64_t(kFp8Tile) || end % int64_t(kFp8Tile))
        return missed(bucket.gathers.front());
      last = end;
    }
    return !bucket.ranges.empty();
  }

  bool missed(dist::AllGatherOp gather) {
    remark::missed(gather.getLoc(), remark::RemarkOpts::name("fp8").category(DEBUG_TYPE).function(function.getName()))
        << "a bucket is gathered in bf16: products read its weights together and apart";
    return false;
  }

  /// The absolute maxima of all ranges, over all ranks.
  void findMaxima() {
    SmallVector<Value> shards;
    SmallVector<int64_t> ranges;
    int64_t count = 0;
    for (auto &[shard, bucket] : buckets) {
      bucket.first = count;
      for (auto [begin, end] : bucket.ranges)
        ranges.append({int64_t(shards.size()), begin, end});
      count += int64_t(bucket.ranges.size());
      shards.push_back(shard);
    }
    builder.setInsertionPointToStart(&function.getBody().front());
    auto type = RankedTensorType::get({count}, builder.getF32Type());
    Value own = dist::ShardAmaxOp::create(builder, function.getLoc(), type, shards, ranges);
    maxima = dist::AllReduceMaxOp::create(builder, function.getLoc(), type, own, dist::kDataAxis);
  }

  /// The codes of a bucket in place of its numbers, where these are gathered.
  void gatherCodes(const CodedBucket &bucket, dist::AllGatherOp gather) {
    builder.setInsertionPoint(gather);
    const StringRef name = dist::bucketOf(gather.getY().getType()).getValue();
    const Type codeType = Float8E4M3FNType::get(builder.getContext());
    SmallVector<int64_t> ranges;
    for (auto [begin, end] : bucket.ranges)
      ranges.append({begin, end});
    SmallVector<Type> types{dist::shardType(name, codeType)};
    types.append(bucket.ranges.size(), RankedTensorType::get({2}, builder.getF32Type()));
    auto codes =
        dist::ShardCodesOp::create(builder, gather.getLoc(), types, gather.getShard(), maxima,
                                   builder.getI64IntegerAttr(bucket.first), builder.getDenseI64ArrayAttr(ranges));
    Value full = dist::AllGatherOp::create(builder, gather.getLoc(), dist::fullType(name, codeType), codes.getCodes(),
                                           dist::kDataAxis);
    for (graph::QuantizeFp8Op quantize : bucket.quantized) {
      auto view = quantize.getX().getDefiningOp<dist::ViewOp>();
      if (view.getBucket() != gather.getY())
        continue;
      builder.setInsertionPoint(quantize);
      const auto matrix = RankedTensorType::get(cast<RankedTensorType>(view.getY().getType()).getShape(), codeType);
      Value rows = dist::ViewOp::create(builder, view.getLoc(), matrix, full, view.getOffsetAttr());
      if (quantize.getByRows())
        quantize.getCodes().front().replaceAllUsesWith(rows);
      if (quantize.getByColumns()) {
        const auto transposed = RankedTensorType::get({matrix.getDimSize(1), matrix.getDimSize(0)}, codeType);
        quantize.getCodes().back().replaceAllUsesWith(
            graph::TransposeCodesOp::create(builder, quantize.getLoc(), transposed, rows));
      }
      quantize.getScale().replaceAllUsesWith(codes.getScales()[bucket.rangeAt(int64_t(view.getOffset()))]);
    }
  }

  /// What read the numbers.
  static void erase(const CodedBucket &bucket) {
    for (graph::QuantizeFp8Op quantize : bucket.quantized)
      quantize.erase();
    for (dist::AllGatherOp gather : bucket.gathers) {
      for (Operation *view : llvm::make_early_inc_range(gather.getY().getUsers())) {
        for (Operation *amax : llvm::make_early_inc_range(view->getResult(0).getUsers()))
          amax->erase();
        view->erase();
      }
      gather.erase();
    }
  }

  func::FuncOp function;
  OpBuilder builder;
  llvm::MapVector<Value, CodedBucket> buckets; ///< by the argument that is gathered
  Value maxima;
};

struct GatherCodes : impl::GatherCodesBase<GatherCodes> {
  void runOnOperation() override {
    func::FuncOp microstep = graph::findEntry(getOperation(), graph::Entry::Microstep);
    if (!microstep || !CodeGatherer(microstep).run())
      markAllAnalysesPreserved();
  }
};
} // namespace
} // namespace ztc
