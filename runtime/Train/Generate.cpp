#include "runtime/Train/Generate.h"
#include "runtime/Train/Signals.h"
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace ztc {

StatusOr<std::vector<int32_t>> tokensOfBytes(std::string_view text, uint64_t vocabulary) {
  std::vector<int32_t> tokens;
  for (const char c : text) {
    tokens.push_back(int32_t(static_cast<unsigned char>(c)));
    if (uint64_t(tokens.back()) >= vocabulary)
      return invalidArgument("byte " + std::to_string(tokens.back()) + " is beyond the model's vocabulary of " +
                             std::to_string(vocabulary));
  }
  return StatusOr<std::vector<int32_t>>(std::move(tokens));
}

namespace {

/// The texts that are under way, each in its place of the model.
class Places {
public:
  Places(NextTokenModel &model, ControlChannel &control, std::span<Continuation> texts)
      : model_(model), control_(control), first_(texts.data()), waiting_(texts),
        under_(std::min<size_t>(model.batch(), texts.size())), tokens_(under_.size()),
        logits_(under_.size() * model.vocabulary()) {}

  StatusOr<bool> run() {
    ZTC_RETURN_IF_ERROR(fill());
    while (std::ranges::any_of(under_, [](const UnderWay &text) { return text.text != nullptr; })) {
      ZTC_RETURN_IF_ERROR(model_.logits(tokens_, logits_));
      for (size_t place = 0; place < under_.size(); ++place) {
        if (!under_[place].text)
          continue;
        ZTC_ASSIGN_OR_RETURN(const bool goesOn, advance(place));
        if (!goesOn)
          return false;
      }
      ZTC_RETURN_IF_ERROR(fill());
    }
    return true;
  }

private:
  struct UnderWay {
    Continuation *text = nullptr; ///< null: the place is free
    uint64_t written = 0;
  };

  Status finish(size_t place, bool stopped) {
    const Continuation *text = std::exchange(under_[place], {}).text;
    tokens_[place].clear();
    return text->end ? text->end(stopped) : Status::ok();
  }

  Status fill() {
    for (size_t place = 0; place < under_.size(); ++place)
      while (!under_[place].text && !waiting_.empty()) {
        under_[place].text = &waiting_.front();
        tokens_[place] = waiting_.front().tokens;
        waiting_ = waiting_.subspan(1);
        if (under_[place].text->count == 0)
          ZTC_RETURN_IF_ERROR(finish(place, false));
      }
    return Status::ok();
  }

  /// False where a signal ends everything.
  StatusOr<bool> advance(size_t place) {
    UnderWay &text = under_[place];
    const auto logits = std::span<const float>(logits_).subspan(place * model_.vocabulary(), model_.vocabulary());
    constexpr int32_t stopped = -1, notNumbers = -2;
    const bool areNumbers = std::ranges::none_of(logits, [](float logit) { return std::isnan(logit); });
    const int32_t mine = stopSignal() != 0 ? stopped
                         : areNumbers      ? text.text->choose(logits, text.written)
                                           : notNumbers;
    ZTC_ASSIGN_OR_RETURN(const std::vector<int32_t> all, allGatherValue(control_, "next token", mine));
    const int32_t next = all[0];
    if (next == stopped)
      return false;
    if (next == notNumbers)
      return failedPrecondition(
          "the model's logits for token " + std::to_string(text.written + 1) + " of text " +
          std::to_string(text.text - first_ + 1) +
          " are not numbers (NaN): its weights hold some, or values on the way overflowed; look at what it was trained "
          "with, or compile it with --precision=fp32");
    if (std::ranges::find(text.text->stops, next) != text.text->stops.end()) {
      ZTC_RETURN_IF_ERROR(finish(place, true));
      return true;
    }
    ZTC_RETURN_IF_ERROR(text.text->emit(next));
    tokens_[place].push_back(next);
    if (++text.written == text.text->count)
      ZTC_RETURN_IF_ERROR(finish(place, false));
    return true;
  }

  NextTokenModel &model_;
  ControlChannel &control_;
  const Continuation *first_; ///< of all texts
  std::span<Continuation> waiting_;
  std::vector<UnderWay> under_;
  std::vector<std::vector<int32_t>> tokens_; ///< place by place; empty where it is free
  std::vector<float> logits_;                ///< (places, V)
};

} // namespace

StatusOr<bool> generateTexts(NextTokenModel &model, ControlChannel &control, std::span<Continuation> texts) {
  return Places(model, control, texts).run();
}

} // namespace ztc
