// What a run does with text: the tokenizer that it names, tokens of text files, text that a model writes.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Ranks/ControlChannel.h"
#include "runtime/Text/TokenFile.h"
#include "runtime/Train/NextToken.h"
#include "runtime/Train/Options.h"
#include "runtime/Train/Progress.h"
#include "runtime/Train/Sampling.h"
#include "runtime/Train/Session.h"
#include <cstdio>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ztc {

/// That of --tokenizer=DIR; null without it.
StatusOr<std::shared_ptr<const TokenizerFolder>> openTokenizer(const RunOptions &options);
/// How text files become tokens, with progress for a person and for the watchdog. All arguments outlive the result.
TextOptions textOptions(const RunOptions &options, std::shared_ptr<const TokenizerFolder> tokenizer,
                        ControlChannel &control, Progress &progress);
/// FailedPrecondition where text would be made of bytes although the model has more tokens than those. `option`: the
/// one that asks for text.
Status checkTextTokens(const RunOptions &options, uint64_t vocabulary, const char *option);

/// A prompt, and what it becomes.
struct Prompt {
  std::string text;
  std::vector<int32_t> tokens;
};

/// What a model made of a prompt.
struct Completion {
  std::string text;
  uint64_t tokens = 0;
  bool stopped = false; ///< the model ended it; else it is as long as was asked for
};

/// Turns prompts into tokens, and tokens that a model chooses into text.
class TextMaker {
public:
  /// `tokenizer` is null where bytes are tokens.
  TextMaker(std::shared_ptr<const TokenizerFolder> tokenizer, Sampling sampling, uint64_t vocabulary)
      : tokenizer_(std::move(tokenizer)), sampling_(sampling), vocabulary_(vocabulary) {}
  static Sampling samplingOf(const RunOptions &options);

  /// Special tokens in `text` are such; what the tokenizer puts before a text is before it. InvalidArgument where that
  /// is not a token, or one that the model does not have.
  StatusOr<Prompt> prompt(const std::string &text) const;
  /// Every prompt with up to `count` tokens after it. `emit` gets the parts of each text as they come, `end` a whole
  /// one; both may be empty. False where a signal ended it.
  StatusOr<bool> complete(NextTokenModel &model, ControlChannel &control, std::span<const Prompt> prompts,
                          uint64_t count, const std::function<void(size_t, std::string_view)> &emit,
                          const std::function<void(size_t, const Completion &)> &end) const;

private:
  std::shared_ptr<const TokenizerFolder> tokenizer_;
  Sampling sampling_;
  uint64_t vocabulary_;
};

/// Writes what the model makes of --prompt, as it comes, or of each of --prompts, a JSON object a line, to `out`, which
/// is null on ranks that are silent. False where a signal ended it.
StatusOr<bool> generateForPrompts(const RunOptions &options, Session &session, ControlChannel &control, std::FILE *out);

} // namespace ztc
