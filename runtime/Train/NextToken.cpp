#include "runtime/Train/NextToken.h"
#include "runtime/Format/NarrowDataType.h"
#include "runtime/Format/PlanValidator.h"
#include <algorithm>
#include <optional>

namespace ztc {

namespace {

/// A text has a row of the plan's batch: it stands at its left, and where it is longer than S only its end. Where the
/// plan has program `decode` or `decode_rows`, a text that has grown by one token since the last call costs one row:
/// keys and values of the others are where the calls before have left them, each with the position that it had. Texts
/// that begin, or are beyond S, go through `generate`; meanwhile the others rest.
class ForwardModel final : public NextTokenModel {
public:
  ForwardModel(const plan::Plan &plan, Executor &executor)
      : plan_(plan), executor_(executor), tokens_(plan.model().batch() * seq(), 0), positions_(rowsOf(plan), -1),
        cached_(positions_.size()) {}

  uint64_t batch() const override { return decodesRows_ || !hasCache() ? positions_.size() : 1; }
  uint64_t vocabulary() const override { return plan_.model().vocabulary(); }

  Status logits(std::span<const std::vector<int32_t>> texts, std::span<float> logits) override {
    // Programs of training use the cache's memory and change the weights.
    if (executor_.progress() != progress_)
      std::ranges::fill(cached_, std::vector<int32_t>());
    std::vector<size_t> begin, goOn;
    for (size_t i = 0; i < texts.size(); ++i)
      if (!texts[i].empty())
        (canDecode(i, texts[i]) ? goOn : begin).push_back(i);
    if (!begin.empty())
      ZTC_RETURN_IF_ERROR(generate(texts, begin, logits));
    if (!goOn.empty())
      ZTC_RETURN_IF_ERROR(decode(texts, goOn, logits));
    return Status::ok();
  }

private:
  /// How many positions `generate` takes.
  static size_t rowsOf(const plan::Plan &plan) {
    const plan::SizeForm &size = plan.slots(int(plan.bindings().position())).size();
    return size.kind() == plan::SizeForm::CONSTANT && size.elements() == plan.model().batch() ? plan.model().batch()
                                                                                              : 1;
  }
  uint64_t seq() const { return plan_.model().seq(); }
  bool hasCache() const { return decodesOne_ || decodesRows_; }

  bool canDecode(size_t row, const std::vector<int32_t> &text) const {
    const std::vector<int32_t> &before = cached_[row];
    return hasCache() && !before.empty() && text.size() == before.size() + 1 && text.size() <= seq() &&
           std::equal(before.begin(), before.end(), text.begin());
  }

  Status generate(std::span<const std::vector<int32_t>> texts, const std::vector<size_t> &rows,
                  std::span<float> logits) {
    std::ranges::fill(positions_, -1);
    for (const size_t row : rows) {
      const std::vector<int32_t> &text = texts[row];
      const size_t kept = std::min<uint64_t>(text.size(), seq());
      const auto window = std::span(tokens_).subspan(row * seq(), seq());
      std::ranges::copy(text.end() - int64_t(kept), text.end(), window.begin());
      std::ranges::fill(window.subspan(kept), 0);
      positions_[row] = int32_t(kept) - 1;
    }
    return execute("generate", tokens_, positions_, texts, rows, logits);
  }

  Status decode(std::span<const std::vector<int32_t>> texts, const std::vector<size_t> &rows, std::span<float> logits) {
    // A text alone in the first row need not take the others along.
    const bool isAlone = decodesOne_ && (!decodesRows_ || (rows.size() == 1 && rows[0] == 0));
    std::vector<int32_t> tokens(isAlone ? 1 : positions_.size(), 0), positions(tokens.size(), -1);
    for (const size_t row : rows) {
      tokens[row] = texts[row].back();
      positions[row] = int32_t(texts[row].size()) - 1;
    }
    return execute(isAlone ? "decode" : "decode_rows", tokens, positions, texts, rows, logits);
  }

  /// Runs a program, notes of which tokens the cache holds keys and values, and reads the logits of `rows`.
  Status execute(const char *program, std::span<const int32_t> tokens, std::span<const int32_t> positions,
                 std::span<const std::vector<int32_t>> texts, const std::vector<size_t> &rows,
                 std::span<float> logits) {
    const plan::Bindings &b = plan_.bindings();
    ZTC_RETURN_IF_ERROR(executor_.writeSlot(b.tokens(), 0, tokens.data(), tokens.size_bytes()));
    ZTC_RETURN_IF_ERROR(executor_.writeSlot(b.position(), 0, positions.data(), positions.size_bytes()));
    ZTC_RETURN_IF_ERROR(executor_.execute(program));
    for (const size_t row : rows) {
      cached_[row].clear();
      if (hasCache() && texts[row].size() <= seq())
        cached_[row] = texts[row];
      ZTC_RETURN_IF_ERROR(readLogits(row, logits.subspan(row * vocabulary(), vocabulary())));
    }
    progress_ = executor_.progress();
    return Status::ok();
  }

  /// Whatever their type.
  Status readLogits(size_t row, std::span<float> logits) {
    const uint32_t slot = plan_.bindings().logits();
    const std::optional<NarrowType> narrowType = narrowDataType(plan_.slots(int(slot)).type());
    if (!narrowType)
      return executor_.readSlot(slot, row * logits.size_bytes(), logits.data(), logits.size_bytes());
    bits_.resize(logits.size());
    const uint64_t bytes = bits_.size() * sizeof(uint16_t);
    ZTC_RETURN_IF_ERROR(executor_.readSlot(slot, row * bytes, bits_.data(), bytes));
    widen(logits.data(), bits_.data(), bits_.size(), *narrowType);
    return Status::ok();
  }

  const plan::Plan &plan_;
  Executor &executor_;
  bool decodesOne_ = executor_.hasProgram("decode"), decodesRows_ = executor_.hasProgram("decode_rows");
  std::vector<int32_t> tokens_; ///< (B, S)
  std::vector<int32_t> positions_;
  std::vector<uint16_t> bits_;
  std::vector<std::vector<int32_t>> cached_; ///< by row, the text whose keys and values the cache holds; empty: of none
  uint64_t progress_ = 0;                    ///< the executor's when that was so
};

} // namespace

StatusOr<std::unique_ptr<NextTokenModel>> createForwardModel(const plan::Plan &plan, Executor &executor) {
  const plan::Bindings &b = plan.bindings();
  if (!executor.hasProgram("generate") || b.position() == kAbsent || b.logits() == kAbsent)
    return invalidArgument("the plan has no program that generates text: compile it again");
  return StatusOr<std::unique_ptr<NextTokenModel>>(std::make_unique<ForwardModel>(plan, executor));
}

} // namespace ztc
