#include "runtime/Train/NextToken.h"
#include "runtime/Format/NarrowDataType.h"
#include "runtime/Format/PlanValidator.h"
#include <algorithm>
#include <optional>

namespace ztc {

namespace {

/// The window is the first row of the plan's batch: the text stands at its left, and where it is longer than S only its
/// end. Where the plan has program `decode`, a text that has grown by one token since the last call costs one row: keys
/// and values of the others are where that call has left them, each with the position that it had.
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
    if (canDecode(text))
      return decode(text, logits);
    const plan::Bindings &b = plan_.bindings();
    const size_t kept = std::min<uint64_t>(text.size(), plan_.model().seq());
    std::copy(text.end() - int64_t(kept), text.end(), tokens_.begin());
    std::fill(tokens_.begin() + int64_t(kept), tokens_.end(), 0);
    const auto position = int32_t(kept - 1);
    ZTC_RETURN_IF_ERROR(executor_.writeSlot(b.tokens(), 0, tokens_.data(), tokens_.size() * sizeof(int32_t)));
    ZTC_RETURN_IF_ERROR(executor_.writeSlot(b.position(), 0, &position, sizeof position));
    ZTC_RETURN_IF_ERROR(executor_.execute("generate"));
    return remember(text, logits);
  }

  /// Nothing else was executed in between: programs of training use the cache's memory and change the weights.
  bool canDecode(const std::vector<int32_t> &text) const {
    return hasCache_ && !cached_.empty() && executor_.progress() == progress_ && text.size() == cached_.size() + 1 &&
           text.size() <= plan_.model().seq() && std::equal(cached_.begin(), cached_.end(), text.begin());
  }

  Status decode(const std::vector<int32_t> &text, std::span<float> logits) {
    const plan::Bindings &b = plan_.bindings();
    const auto position = int32_t(text.size() - 1);
    ZTC_RETURN_IF_ERROR(executor_.writeSlot(b.tokens(), 0, &text.back(), sizeof text.back()));
    ZTC_RETURN_IF_ERROR(executor_.writeSlot(b.position(), 0, &position, sizeof position));
    ZTC_RETURN_IF_ERROR(executor_.execute("decode"));
    return remember(text, logits);
  }

  /// Notes of which tokens the cache holds keys and values, and reads the logits.
  Status remember(const std::vector<int32_t> &text, std::span<float> logits) {
    cached_.clear();
    if (hasCache_ && text.size() <= plan_.model().seq())
      cached_ = text;
    progress_ = executor_.progress();
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
  bool hasCache_ = executor_.hasProgram("decode");
  std::vector<int32_t> cached_; ///< the text whose keys and values the cache holds; empty: of none
  uint64_t progress_ = 0;       ///< the executor's when that was so
};

} // namespace

StatusOr<std::unique_ptr<NextTokenModel>> createForwardModel(const plan::Plan &plan, Executor &executor) {
  const plan::Bindings &b = plan.bindings();
  if (!executor.hasProgram("generate") || b.position() == kAbsent || b.logits() == kAbsent)
    return invalidArgument("the plan has no program that generates text: compile it again");
  return StatusOr<std::unique_ptr<NextTokenModel>>(std::make_unique<ForwardModel>(plan, executor));
}

} // namespace ztc
