#include "runtime/Text/Unicode.h"
#include "runtime/Train/Generate.h"
#include "runtime/Train/TextRun.h"
#include <algorithm>
#include <fmt/format.h>
#include <optional>
#include <utility>

namespace ztc {

Sampling TextMaker::samplingOf(const RunOptions &options) {
  return {.temperature = options.temperature.value_or(0),
          .topK = options.topK.value_or(0),
          .topP = options.topP.value_or(1),
          .seed = options.seed.value_or(0)};
}

StatusOr<Prompt> TextMaker::prompt(const std::string &text) const {
  Prompt made{.text = text, .tokens = {}};
  if (!tokenizer_) {
    ZTC_ASSIGN_OR_RETURN(made.tokens, tokensOfBytes(text, vocabulary_));
    return StatusOr<Prompt>(std::move(made));
  }
  WordCache cache;
  std::vector<int32_t> inner;
  ZTC_RETURN_IF_ERROR(tokenizer_->tokenizer.encode(text, false, inner, cache));
  made.tokens = tokenizer_->tokenizer.surroundings().before;
  if (!made.tokens.empty() && !inner.empty() && inner[0] == made.tokens[0]) // a prompt that brings its own beginning
    made.tokens.clear();
  made.tokens.insert(made.tokens.end(), inner.begin(), inner.end());
  for (const int32_t token : made.tokens)
    if (uint64_t(token) >= vocabulary_)
      return invalidArgument(fmt::format("it becomes the token {} ({}), which lies beyond the model's vocabulary "
                                         "of {}: the tokenizer in '{}' and the model do not belong together",
                                         token, tokenizer_->describe(token), vocabulary_, tokenizer_->folder));
  if (made.tokens.empty())
    return invalidArgument("it becomes no token at all");
  return StatusOr<Prompt>(std::move(made));
}

StatusOr<bool> TextMaker::complete(NextTokenModel &model, ControlChannel &control, std::span<const Prompt> prompts,
                                   uint64_t count, const std::function<void(size_t, std::string_view)> &emit,
                                   const std::function<void(size_t, const Completion &)> &end) const {
  const size_t known = tokenizer_ ? size_t(tokenizer_->tokenizer.endOfIds()) : kByteTokens;
  std::vector<Completion> completions(prompts.size());
  std::vector<std::optional<TextStream>> streams(prompts.size());
  std::vector<Continuation> texts(prompts.size());
  const auto append = [&](size_t i, std::string_view part) {
    completions[i].text += part;
    if (emit)
      emit(i, part);
  };
  for (size_t i = 0; i < prompts.size(); ++i) {
    if (tokenizer_) {
      streams[i].emplace(tokenizer_->tokenizer, prompts[i].tokens);
      texts[i].stops = tokenizer_->stops;
    }
    texts[i].tokens = prompts[i].tokens;
    texts[i].count = count;
    texts[i].choose = [this, known, i](std::span<const float> logits, uint64_t place) {
      return chooseToken(logits.first(std::min(logits.size(), known)), sampling_, i, place);
    };
    texts[i].emit = [&, i](int32_t token) -> Status {
      ++completions[i].tokens;
      if (!streams[i]) {
        const char byte = char(token);
        append(i, {&byte, 1});
        return Status::ok();
      }
      ZTC_ASSIGN_OR_RETURN(const std::string part, streams[i]->push(token));
      append(i, part);
      return Status::ok();
    };
    texts[i].end = [&, i](bool stopped) -> Status {
      if (streams[i]) {
        ZTC_ASSIGN_OR_RETURN(const std::string rest, streams[i]->finish());
        append(i, rest);
      }
      completions[i].stopped = stopped;
      if (end)
        end(i, completions[i]);
      completions[i] = {};
      return Status::ok();
    };
  }
  return generateTexts(model, control, texts);
}

} // namespace ztc
