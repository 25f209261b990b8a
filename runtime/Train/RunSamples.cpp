// Text that the model writes while it is trained: --sample-every.
#include "runtime/Core/Print.h"
#include "runtime/Text/Unicode.h"
#include "runtime/Train/RunStages.h"
#include <fmt/format.h>
#include <optional>
#include <vector>

namespace ztc {

Status RunStages::prepareSamples() {
  if (!options_.sampleEvery)
    return Status::ok();
  const plan::Plan &plan = session_->plan();
  ZTC_RETURN_IF_ERROR(checkTextTokens(options_, plan.model().vocabulary(), "--sample-every"));
  textMaker_.emplace(tokenizer_, TextMaker::samplingOf(options_), plan.model().vocabulary());
  for (const std::string &text : options_.samplePrompts) {
    auto made = textMaker_->prompt(text);
    if (!made.isOk())
      return made.status().withContext("--sample-prompt");
    samplePrompts_.push_back(std::move(*made));
  }
  auto model = createForwardModel(plan, session_->executor());
  if (!model.isOk())
    return model.status().withContext("--sample-every");
  textModel_ = std::move(*model);
  return Status::ok();
}

Status RunStages::sample(const LoopPosition &position) {
  control_.progress().enterPhase("sampling");
  JsonObject line;
  const auto say = [&](size_t i, const Completion &completion) {
    const std::string &prompt = samplePrompts_[i].text;
    progress_.note(fmt::format("after {} steps: \"{}\" goes on: {}", position.step, printable(prompt, 200),
                               printable(completion.text)));
    line.begin().add("event", "sample").add("step", position.step).add("prompt", replaceInvalidUtf8(prompt));
    line.add("text", replaceInvalidUtf8(completion.text)).add("tokens", completion.tokens);
    log_.write(line.add("ended_by", completion.stopped ? "stop" : "length").end());
  };
  // One that ends before one of a prompt before its own waits for that one.
  std::vector<std::optional<Completion>> ended(samplePrompts_.size());
  size_t next = 0;
  const auto end = [&](size_t i, const Completion &completion) {
    ended[i] = completion;
    for (; next < ended.size() && ended[next]; ++next)
      say(next, *ended[next]);
  };
  // A signal ends the samples; the loop sees it between two steps.
  return textMaker_
      ->complete(*textModel_, control_, samplePrompts_, options_.sampleTokens.value_or(kDefaultSampleTokens), nullptr,
                 end)
      .status();
}

} // namespace ztc
