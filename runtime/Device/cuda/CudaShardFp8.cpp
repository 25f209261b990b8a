// Weights that ranks gather as fp8 codes: the absolute maxima of what this rank has of them, and its codes. The kernels
// are those of whole matrices: a range is a matrix of kFp8Tile rows.
#include "runtime/Device/cuda/CudaStep.h"
#include "runtime/Format/Fp8DataType.h"
#include "runtime/Format/PlanValidator.h"
#include <algorithm>
#include <fmt/format.h>

namespace ztc {
namespace {

class CudaShardFp8 : public CudaStep {
public:
  explicit CudaShardFp8(const CudaPrepare &from) : CudaStep(from) {}

  Status prepare(const CudaPrepare &from) {
    const plan::ShardFp8 &call = from.step.shard_fp8();
    ZTC_RETURN_IF_ERROR(operands_.resolve(from.step, from.context, {}));
    findsMaxima_ = call.to() == plan::F32;
    first_ = call.first();
    elementBytes_ = dataTypeBytes(call.from());
    ZTC_ASSIGN_OR_RETURN(parts_, shardParts(from.step, call.ranges(), kShards, from.context));
    const size_t needed = findsMaxima_ ? 3 : 4 + parts_.size();
    if (operands_.count() < needed)
      return dataLoss(fmt::format("the step has {} operands, {} expected", operands_.count(), needed));
    ZTC_RETURN_IF_ERROR(operands_.requireElements(0, {first_ + parts_.size()}, sizeof(float)));
    ZTC_RETURN_IF_ERROR(findsMaxima_ ? operands_.requireElements(1, {kFp8Partials}, sizeof(float))
                                     : operands_.requireElements(1, {kFp8Tile}, 1));
    for (const ShardPart &part : parts_) {
      ZTC_RETURN_IF_ERROR(operands_.requireElements(part.operand, {part.begin + part.count}, elementBytes_));
      if (!findsMaxima_)
        ZTC_RETURN_IF_ERROR(operands_.requireElements(kCodes, {part.begin + part.count}, 1));
    }
    for (size_t scale = kCodes + 1; !findsMaxima_ && scale < operands_.count(); ++scale)
      ZTC_RETURN_IF_ERROR(operands_.requireElements(scale, {2}, sizeof(float)));
    ZTC_ASSIGN_OR_RETURN(kernels_, gpuKernels(call.gpu_kernels(), findsMaxima_ ? 2 : 1));
    return Status::ok();
  }

  Status execute(uint32_t) override {
    for (size_t i = 0; i < parts_.size(); ++i)
      ZTC_RETURN_IF_ERROR(findsMaxima_ ? findMaximum(i) : quantize(i));
    return Status::ok();
  }

private:
  /// Elements that a thread reads at a time.
  static constexpr uint64_t kPiece = 8;
  static constexpr size_t kShards = 2, kCodes = 3; ///< operands: maxima, workspace, shard, codes, scales

  cuda::Address maximum(size_t i) const { return address(0) + (first_ + i) * sizeof(float); }
  cuda::Address numbers(const ShardPart &part) const { return address(part.operand) + part.begin * elementBytes_; }

  /// The largest of each of several parts, then the largest of these; 0 where this rank has nothing of the range.
  Status findMaximum(size_t i) const {
    const CudaKernel &ofParts = kernels_[0], &ofAll = kernels_[1];
    const uint64_t pieces = parts_[i].count / kPiece;
    const uint64_t blocks = (pieces + ofParts.blockThreads - 1) / ofParts.blockThreads;
    // The second kernel reads whole pieces: a part without any is 0.
    const uint64_t parts = std::clamp((blocks + kPiece - 1) / kPiece * kPiece, kPiece, kFp8Partials);
    ZTC_RETURN_IF_ERROR(launch(ofParts, {numbers(parts_[i]), address(1), pieces, parts}, parts));
    return launch(ofAll, {address(1), maximum(i), parts / kPiece, 1}, 1);
  }

  /// Where this rank has nothing of a range, which it still needs the scale of, a column of a tile of its shard stands
  /// for it.
  Status quantize(size_t i) const {
    const ShardPart &part = parts_[i];
    const uint64_t columns = part.count ? part.count / kFp8Tile : 1;
    return launch(kernels_[0],
                  {part.count ? numbers(part) : address(part.operand), address(kCodes + 1 + i), maximum(i),
                   part.count ? address(kCodes) + part.begin : address(1), kFp8Tile, columns, 1},
                  columns);
  }

  std::vector<CudaKernel> kernels_;
  bool findsMaxima_ = false;
  uint64_t first_ = 0, elementBytes_ = 0;
  std::vector<ShardPart> parts_;
};

} // namespace

PreparedStep prepareCudaShardFp8(const CudaPrepare &from) {
  auto step = std::make_unique<CudaShardFp8>(from);
  ZTC_RETURN_IF_ERROR(step->prepare(from));
  return PreparedStep(std::move(step));
}

} // namespace ztc
