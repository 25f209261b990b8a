// The fp8 codes of a matrix: one kernel for the largest magnitude, one for scale and codes.
#include "runtime/Device/cuda/CudaStep.h"
#include "runtime/Format/Fp8DataType.h"
#include "runtime/Format/PlanValidator.h"
#include <algorithm>
#include <fmt/format.h>

namespace ztc {
namespace {

class CudaQuantizeFp8 : public CudaStep {
public:
  explicit CudaQuantizeFp8(const CudaPrepare &from) : CudaStep(from) {}

  Status prepare(const CudaPrepare &from) {
    const plan::QuantizeFp8 &call = from.step.quantize_fp8();
    rows_ = call.rows();
    columns_ = call.columns();
    const int results = int(call.by_rows()) + int(call.by_columns());
    isBoth_ = results == 2;
    ZTC_RETURN_IF_ERROR(operands_.resolve(from.step, from.context, {3 + results, 4 + results}));
    if (!fp8DataType(call.to()) || !rows_ || !columns_ || rows_ % kFp8Tile || columns_ % kFp8Tile || results == 0)
      return dataLoss(fmt::format("no fp8 codes of {} x {} elements as type {}", rows_, columns_, int(call.to())));
    ZTC_RETURN_IF_ERROR(operands_.requireElements(0, {rows_, columns_}, dataTypeBytes(call.from())));
    ZTC_RETURN_IF_ERROR(operands_.requireElements(1, {2}, sizeof(float)));
    units_ = call.by_columns() ? fp8Squares(rows_, columns_, kFp8EncodedSide) : rows_ * columns_ / kFp8Tile;
    isKnown_ = call.known_scale();
    accumulate_ = call.accumulate();
    ZTC_RETURN_IF_ERROR(
        operands_.requireElements(2, {isKnown_ ? fp8Blocks(rows_, columns_) : kFp8Partials}, sizeof(float)));
    for (size_t operand = 3; operand < 3 + size_t(results); ++operand)
      ZTC_RETURN_IF_ERROR(operands_.requireElements(operand, {rows_, columns_}, 1));
    if (isKnown_ && operands_.count() <= 3 + size_t(results))
      return dataLoss("fp8 codes of a known scale have no place for the absolute maximum");
    if (isKnown_)
      ZTC_RETURN_IF_ERROR(operands_.requireElements(3 + size_t(results), {1}, sizeof(float)));
    else if (operands_.count() > 3 + size_t(results))
      amax_ = operands_.bytes(3 + results) / std::max<uint64_t>(dataTypeBytes(call.from()), 1);
    ZTC_RETURN_IF_ERROR(requireAligned());
    ZTC_ASSIGN_OR_RETURN(const std::vector<CudaKernel> kernels, gpuKernels(call.gpu_kernels(), 2));
    maxima_ = kernels[isKnown_ ? 1 : 0];
    quantize_ = kernels[isKnown_ ? 0 : 1];
    return Status::ok();
  }

  Status execute(uint32_t microstep) override {
    if (isKnown_)
      return encode(addsNow(accumulate_, microstep));
    // Of x, or of the absolute maxima that what wrote x has found. Pieces of 8 elements; a block has as many threads as
    // the kernel's version says, and takes every kParts-th piece.
    const uint64_t pieces = (amax_ ? amax_ : rows_ * columns_) / kPiece;
    const uint64_t parts = std::min(kFp8Partials, (pieces + maxima_.blockThreads - 1) / maxima_.blockThreads);
    ZTC_RETURN_IF_ERROR(
        launch(maxima_, {address(amax_ ? operands_.count() - 1 : 0), address(2), pieces, parts}, parts));
    if (isBoth_)
      return launch(quantize_, {address(0), address(1), address(2), address(3), address(4), rows_, columns_, parts},
                    units_);
    return launch(quantize_, {address(0), address(1), address(2), address(3), rows_, columns_, parts}, units_);
  }

private:
  /// Elements that a thread reads at a time.
  static constexpr uint64_t kPiece = 8;

  /// Codes first; each block finds the largest magnitude of what it reads, and one more block the largest of these.
  Status encode(bool adds) const {
    if (isBoth_)
      ZTC_RETURN_IF_ERROR(
          launch(quantize_, {address(0), address(1), address(2), address(3), address(4), rows_, columns_}, units_));
    else
      ZTC_RETURN_IF_ERROR(launch(quantize_, {address(0), address(1), address(2), address(3), rows_, columns_}, units_));
    const uint64_t blocks = quantize_.blocks(units_);
    return launch(maxima_, {address(2), address(operands_.count() - 1), blocks, uint64_t(adds)}, 1);
  }

  CudaKernel maxima_, quantize_;
  uint64_t rows_ = 0, columns_ = 0, amax_ = 0;
  uint64_t units_ = 0; ///< of the kernel that makes the codes: squares, or kFp8Tile codes of a row
  bool isBoth_ = false, isKnown_ = false;
  plan::Accumulate accumulate_ = plan::OVERWRITE; ///< of the absolute maximum
};

} // namespace

PreparedStep prepareCudaQuantizeFp8(const CudaPrepare &from) {
  auto step = std::make_unique<CudaQuantizeFp8>(from);
  ZTC_RETURN_IF_ERROR(step->prepare(from));
  return PreparedStep(std::move(step));
}

} // namespace ztc
