// --eval-choices: questions with several answers, of which the model finds one the likeliest.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Text/TokenizerFolder.h"
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace ztc {

/// One way to go on from a context, as tokens.
struct Choice {
  std::vector<int32_t> tokens; ///< of the context and, after it, of the choice
  size_t scored = 0;           ///< the last of them, that are the choice's
  uint64_t bytes = 0;          ///< of the choice's text
};

struct Question {
  std::vector<Choice> choices; ///< at least two
  size_t answer = 0;
};

/// The questions of a .jsonl file: each line has `context`, `choices` (texts) and `answer` (the place of one of them,
/// from 0, or its text). A space stands between context and choice where neither has white space there; `delimiter` in
/// a line is put there instead. Tokens are split as lm-evaluation-harness does: those of context and choice together,
/// after those of the context; white space at the context's end belongs to the choice. `tokenizer` is null where bytes
/// are tokens. InvalidArgument, with file and line, on what is not a question or a token that the model does not have.
StatusOr<std::vector<Question>> readQuestions(const std::string &path, const TokenizerFolder *tokenizer,
                                              uint64_t vocabulary);

/// Tokens and targets (S each) of a choice: what does not fit leaves at the left, and only the choice's own targets
/// count.
void fillChoice(const Choice &choice, std::span<int32_t> tokens, std::span<int32_t> targets);

/// Shares of questions that are answered well, with the standard error of each.
struct ChoiceScores {
  uint64_t questions = 0;
  double accuracy = 0, accuracyError = 0;     ///< by the sum of the logarithms of the tokens' probabilities
  double normalized = 0, normalizedError = 0; ///< by that sum over the choice's bytes
};

/// `sums`: of each choice, question by question. Of equals the first is taken.
ChoiceScores scoreChoices(std::span<const Question> questions, std::span<const double> sums);

} // namespace ztc
