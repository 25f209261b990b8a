#include "runtime/Train/NextToken.h"
#include "runtime/Format/NarrowDataType.h"
#include "runtime/Format/PlanValidator.h"
#include <algorithm>
#include <optional>

namespace ztc {

namespace {

/// The window is the first row of the plan's batch: the text stands at its left, and where it is longer than S only its
/// end.
class ForwardModel final : public NextTokenModel {
public:
  ForwardModel(const plan::Plan &plan, Executor &executor)
      : plan_(plan), executor_(executor), tokens_(plan.model().batch() * plan.model().seq(), 0) {}

  uint64_t batch() const override { return 1; }
  uint64_t vocabulary() const override { return plan_.model().vocabulary(); }

  Status logits(std::span<const std::vector<int32_t>> texts, std::span<float> logits) override {
    for (size_t i = 0; i < texts.size(); ++i)
      if (!texts[i].empty())
        ZTC_RETURN_IF_ERROR(execute(texts[i], logits.subspan(i * vocabulary(), vocabulary())));
    return Status::ok();
  }

private:
  Status execute(const std::vector<int32_t> &text, std::span<float> logits) {
    const plan::Bindings &b = plan_.bindings();
    const size_t kept = std::min<uint64_t>(text.size(), plan_.model().seq());
    std::copy(text.end() - int64_t(kept), text.end(), tokens_.begin());
    std::fill(tokens_.begin() + int64_t(kept), tokens_.end(), 0);
    const auto position = int32_t(kept - 1);
    ZTC_RETURN_IF_ERROR(executor_.writeSlot(b.tokens(), 0, tokens_.data(), tokens_.size() * sizeof(int32_t)));
    ZTC_RETURN_IF_ERROR(executor_.writeSlot(b.position(), 0, &position, sizeof position));
    ZTC_RETURN_IF_ERROR(executor_.execute("generate"));
    return readLogits(logits);
  }

  /// One position's, whatever their type.
  Status readLogits(std::span<float> logits) {
    const uint32_t slot = plan_.bindings().logits();
    const std::optional<NarrowType> narrowType = narrowDataType(plan_.slots(int(slot)).type());
    if (!narrowType)
      return executor_.readSlot(slot, 0, logits.data(), logits.size() * sizeof(float));
    bits_.resize(logits.size());
    ZTC_RETURN_IF_ERROR(executor_.readSlot(slot, 0, bits_.data(), bits_.size() * sizeof(uint16_t)));
    widen(logits.data(), bits_.data(), bits_.size(), *narrowType);
    return Status::ok();
  }

  const plan::Plan &plan_;
  Executor &executor_;
  std::vector<int32_t> tokens_; ///< (B, S)
  std::vector<uint16_t> bits_;
};

} // namespace

StatusOr<std::unique_ptr<NextTokenModel>> createForwardModel(const plan::Plan &plan, Executor &executor) {
  const plan::Bindings &b = plan.bindings();
  if (!executor.hasProgram("generate") || b.position() == kAbsent || b.logits() == kAbsent)
    return invalidArgument("the plan has no program that generates text: compile it again");
  return StatusOr<std::unique_ptr<NextTokenModel>>(std::make_unique<ForwardModel>(plan, executor));
}

} // namespace ztc
