// Weights that are stored in fewer bits, in front of what reads them.
#include "runtime/Device/host/HostStep.h"
#include "runtime/Format/NarrowDataType.h"
#include "runtime/Format/PlanValidator.h"
#include "runtime/Format/QuantizedWeight.h"
#include <algorithm>
#include <array>
#include <fmt/format.h>

namespace ztc {
namespace {

class HostDequantize : public HostStep {
public:
  explicit HostDequantize(HostResources &resources) : HostStep(resources) {}

  Status prepare(const HostPrepare &from) {
    const plan::Dequantize &call = from.step.dequantize();
    ZTC_RETURN_IF_ERROR(resolve(from, {2}));
    const std::optional<QuantizedLayout> layout = quantizedLayout(call.format(), call.rows(), call.columns());
    narrowType_ = narrowDataType(call.type());
    if (!layout || (!narrowType_ && call.type() != plan::F32))
      return dataLoss(fmt::format("no numbers of format {} as {}", int(call.format()), dataTypeName(call.type())));
    layout_ = *layout;
    ZTC_RETURN_IF_ERROR(require(from, 0, layout_.bytes));
    return requireElements(from, 1, {call.rows(), call.columns()}, dataTypeBytes(call.type()));
  }

  Status execute(uint32_t) override {
    const std::byte *bytes = pointer<std::byte>(0);
    const uint64_t elements = layout_.elements();
    resources_.pool.parallelFor((elements + kPiece - 1) / kPiece, 8, [&](uint32_t, uint64_t begin, uint64_t end) {
      for (uint64_t piece = begin; piece < end; ++piece) {
        const uint64_t first = piece * kPiece, count = std::min(kPiece, elements - first);
        if (!narrowType_) {
          dequantize(bytes, layout_, first, count, pointer<float>(1) + first);
          continue;
        }
        std::array<float, kPiece> numbers;
        dequantize(bytes, layout_, first, count, numbers.data());
        narrow(pointer<uint16_t>(1) + first, numbers.data(), count, *narrowType_);
      }
    });
    return Status::ok();
  }

private:
  static constexpr uint64_t kPiece = 16 * kNf4Block; ///< elements, a few KiB

  QuantizedLayout layout_;
  std::optional<NarrowType> narrowType_; ///< nothing: f32
};

} // namespace

PreparedStep prepareHostDequantize(const HostPrepare &from) {
  auto step = std::make_unique<HostDequantize>(from.resources);
  ZTC_RETURN_IF_ERROR(step->prepare(from));
  return PreparedStep(std::move(step));
}

} // namespace ztc
