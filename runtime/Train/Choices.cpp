#include "runtime/Train/Choices.h"
#include "runtime/Core/File.h"
#include "runtime/Core/Json.h"
#include "runtime/Data/DataSet.h"
#include "runtime/Text/Unicode.h"
#include "runtime/Train/Generate.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <optional>
#include <utility>

namespace ztc {

namespace {

bool isSpace(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

/// Makes tokens of contexts and choices.
class ChoiceReader {
public:
  ChoiceReader(const TokenizerFolder *tokenizer, uint64_t vocabulary)
      : tokenizer_(tokenizer), vocabulary_(vocabulary) {}

  StatusOr<Question> read(std::string_view line) {
    const nlohmann::json json = parseJson(line);
    if (!json.is_object())
      return invalidArgument("is not a JSON object");
    const std::string *context = textOf(json, "context");
    const auto choices = json.find("choices");
    if (!context || choices == json.end() || !choices->is_array() || choices->size() < 2)
      return invalidArgument("needs `context`, a text, and `choices`, two texts or more");
    if (json.contains("delimiter") && !textOf(json, "delimiter"))
      return invalidArgument("has a `delimiter` that is not a text");
    Question question;
    std::vector<std::string> texts;
    for (const nlohmann::json &choice : *choices) {
      const auto *text = choice.get_ptr<const std::string *>();
      if (!text || text->empty())
        return invalidArgument("has a choice that is not a text, or empty");
      texts.push_back(*text);
      const std::string *delimiter = textOf(json, "delimiter");
      const bool isApart = (!context->empty() && isSpace(context->back())) || isSpace(text->front());
      ZTC_ASSIGN_OR_RETURN(Choice made, encode(*context, (delimiter ? *delimiter : isApart ? "" : " ") + *text));
      made.bytes = text->size();
      question.choices.push_back(std::move(made));
    }
    const std::optional<size_t> answer = answerOf(json, texts);
    if (!answer)
      return invalidArgument(
          fmt::format("needs `answer`, the place of a choice (0 to {}) or its text", texts.size() - 1));
    question.answer = *answer;
    return StatusOr<Question>(std::move(question));
  }

private:
  static const std::string *textOf(const nlohmann::json &json, const char *name) {
    const auto found = json.find(name);
    return found == json.end() ? nullptr : found->get_ptr<const std::string *>();
  }

  static std::optional<size_t> answerOf(const nlohmann::json &json, const std::vector<std::string> &texts) {
    const auto answer = json.find("answer");
    if (answer == json.end())
      return std::nullopt;
    if (const auto *place = answer->get_ptr<const nlohmann::json::number_unsigned_t *>())
      return *place < texts.size() ? std::optional<size_t>(*place) : std::nullopt;
    const auto *text = answer->get_ptr<const std::string *>();
    const auto found = text ? std::ranges::find(texts, *text) : texts.end();
    return found == texts.end() ? std::nullopt : std::optional<size_t>(found - texts.begin());
  }

  StatusOr<std::vector<int32_t>> tokensOf(const std::string &text) {
    if (!tokenizer_)
      return tokensOfBytes(text, vocabulary_);
    std::vector<int32_t> inner, tokens = tokenizer_->tokenizer.surroundings().before;
    ZTC_RETURN_IF_ERROR(tokenizer_->tokenizer.encode(text, false, inner, cache_));
    if (!tokens.empty() && !inner.empty() && inner[0] == tokens[0]) // a text that brings its own beginning
      tokens.clear();
    tokens.insert(tokens.end(), inner.begin(), inner.end());
    for (const int32_t token : tokens)
      if (uint64_t(token) >= vocabulary_)
        return invalidArgument(fmt::format("becomes the token {} ({}), which lies beyond the model's vocabulary of {}: "
                                           "the tokenizer in '{}' and the model do not belong together",
                                           token, tokenizer_->describe(token), vocabulary_, tokenizer_->folder));
    return StatusOr<std::vector<int32_t>>(std::move(tokens));
  }

  /// `choice` with what stands between it and the context.
  StatusOr<Choice> encode(const std::string &context, const std::string &choice) {
    size_t end = context.size();
    while (end > 0 && isSpace(context[end - 1]))
      --end;
    Choice made;
    ZTC_ASSIGN_OR_RETURN(made.tokens, tokensOf(context + choice));
    size_t before = 0;
    if (end > 0) {
      ZTC_ASSIGN_OR_RETURN(const std::vector<int32_t> alone, tokensOf(context.substr(0, end)));
      before = alone.size();
    } else if (tokenizer_) {
      before = tokenizer_->tokenizer.surroundings().before.size();
      if (before == 0 && tokenizer_->endOfText) { // something has to stand before the first token
        made.tokens.insert(made.tokens.begin(), *tokenizer_->endOfText);
        before = 1;
      }
    }
    if (before == 0)
      return invalidArgument("has an empty `context`, and the tokenizer puts no token before a text");
    if (before >= made.tokens.size())
      return invalidArgument("has a choice that adds no token to its context");
    made.scored = made.tokens.size() - before;
    return StatusOr<Choice>(std::move(made));
  }

  const TokenizerFolder *tokenizer_;
  uint64_t vocabulary_;
  WordCache cache_;
};

} // namespace

StatusOr<std::vector<Question>> readQuestions(const std::string &path, const TokenizerFolder *tokenizer,
                                              uint64_t vocabulary) {
  ZTC_ASSIGN_OR_RETURN(const std::string text, readWholeFile(path));
  if (const std::optional<size_t> bad = findInvalidUtf8(text))
    return invalidArgument(fmt::format("'{}' is not UTF-8 at byte {}", path, *bad));
  ChoiceReader reader(tokenizer, vocabulary);
  std::vector<Question> questions;
  uint64_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (std::ranges::all_of(line, isSpace))
      continue;
    auto question = reader.read(line);
    if (!question.isOk())
      return invalidArgument(fmt::format("'{}' line {} {}", path, number, question.status().message()));
    questions.push_back(std::move(*question));
  }
  if (questions.empty())
    return invalidArgument(fmt::format("'{}' holds no question", path));
  return StatusOr<std::vector<Question>>(std::move(questions));
}

void fillChoice(const Choice &choice, std::span<int32_t> tokens, std::span<int32_t> targets) {
  std::ranges::fill(tokens, 0);
  std::ranges::fill(targets, kIgnoredTarget);
  const std::vector<int32_t> &all = choice.tokens; // each but the last is an input, each but the first a target
  const size_t inputs = std::min(all.size() - 1, tokens.size()), first = all.size() - 1 - inputs;
  const size_t scored = std::min(choice.scored, inputs);
  for (size_t i = 0; i < inputs; ++i) {
    tokens[i] = all[first + i];
    if (i + scored >= inputs)
      targets[i] = all[first + i + 1];
  }
}

ChoiceScores scoreChoices(std::span<const Question> questions, std::span<const double> sums) {
  uint64_t right = 0, rightNormalized = 0;
  size_t next = 0;
  for (const Question &question : questions) {
    size_t best = 0, bestNormalized = 0;
    const std::span<const double> mine = sums.subspan(next, question.choices.size());
    const auto normalized = [&](size_t i) { return mine[i] / double(question.choices[i].bytes); };
    for (size_t i = 1; i < mine.size(); ++i) {
      best = mine[i] > mine[best] ? i : best;
      bestNormalized = normalized(i) > normalized(bestNormalized) ? i : bestNormalized;
    }
    right += best == question.answer;
    rightNormalized += bestNormalized == question.answer;
    next += mine.size();
  }
  ChoiceScores scores{.questions = questions.size()};
  const auto n = double(questions.size());
  const auto error = [n](double share) { return n > 1 ? std::sqrt(share * (1 - share) / (n - 1)) : 0; };
  scores.accuracy = double(right) / n;
  scores.normalized = double(rightNormalized) / n;
  scores.accuracyError = error(scores.accuracy);
  scores.normalizedError = error(scores.normalized);
  return scores;
}

} // namespace ztc
