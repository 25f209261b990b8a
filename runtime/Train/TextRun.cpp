#include "runtime/Train/TextRun.h"
#include "runtime/Core/File.h"
#include "runtime/Core/Json.h"
#include "runtime/Core/Print.h"
#include "runtime/Core/SteadyClock.h"
#include "runtime/Text/Unicode.h"
#include "runtime/Train/Session.h"
#include "runtime/Train/Signals.h"
#include <algorithm>
#include <fmt/format.h>
#include <optional>
#include <utility>

namespace ztc {

StatusOr<std::shared_ptr<const TokenizerFolder>> openTokenizer(const RunOptions &options) {
  if (!options.hasTokenizerFolder())
    return std::shared_ptr<const TokenizerFolder>();
  auto opened = TokenizerFolder::open(options.tokenizer);
  return opened.isOk() ? std::move(opened)
                       : StatusOr<std::shared_ptr<const TokenizerFolder>>(opened.status().withContext("--tokenizer"));
}

TextOptions textOptions(const RunOptions &options, std::shared_ptr<const TokenizerFolder> tokenizer,
                        ControlChannel &control, Progress &progress) {
  TextOptions out{.tokenizer = std::move(tokenizer),
                  .cacheFolder = options.cacheFolder,
                  .temporaryFolder = options.temporaryFolder,
                  .threads = availableCores()};
  out.progress = [&](const std::string &path, uint64_t done, uint64_t all) {
    control.progress().addWork();
    const double now = steadySeconds();
    if (done < all && progress.isDue(now, false))
      progress.show(fmt::format("tokenizing {}: {:.0f} %", path, 100 * double(done) / double(all)), now);
  };
  out.cancelled = [] { return stopSignal() != 0; };
  return out;
}

Status checkTextTokens(const RunOptions &options, uint64_t vocabulary, const char *option) {
  // Bytes and some special tokens: more are those of a tokenizer.
  constexpr uint64_t kMostByteTokens = 320;
  if (vocabulary <= kMostByteTokens || !options.tokenizer.empty())
    return Status::ok();
  return failedPrecondition(
      fmt::format("{}: the model has a vocabulary of {} tokens, bytes alone would print noise: give its tokenizer with "
                  "--tokenizer=DIR, or --tokenizer=bytes where it was trained on bytes",
                  option, vocabulary));
}

/// That of --prompt, or those of --prompts: its lines, or the `prompt` of its JSON lines.
static StatusOr<std::vector<std::string>> readPrompts(const RunOptions &options) {
  if (options.prompt)
    return std::vector<std::string>{*options.prompt};
  const std::string &path = options.promptFile;
  ZTC_ASSIGN_OR_RETURN(const std::string text, readWholeFile(path));
  if (const std::optional<size_t> bad = findInvalidUtf8(text))
    return invalidArgument(fmt::format("--prompts: '{}' is not UTF-8 at byte {}", path, *bad));
  std::vector<std::string> prompts;
  uint64_t number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.empty())
      continue;
    if (!path.ends_with(".jsonl")) {
      prompts.push_back(line);
      continue;
    }
    const nlohmann::json json = parseJson(line);
    const nlohmann::json *value = json.is_object() && json.contains("prompt") ? &*json.find("prompt") : &json;
    const auto *prompt = value->get_ptr<const std::string *>();
    if (!prompt || prompt->empty())
      return invalidArgument(fmt::format("--prompts: '{}' line {} has no `prompt` that is a text", path, number));
    prompts.push_back(*prompt);
  }
  if (prompts.empty())
    return invalidArgument(fmt::format("--prompts: '{}' holds no prompt", path));
  return StatusOr<std::vector<std::string>>(std::move(prompts));
}

/// A line of --prompts' output.
static std::string completionJson(const Prompt &prompt, const Completion &completion) {
  const nlohmann::ordered_json json = {{"prompt", prompt.text},
                                       {"text", completion.text},
                                       {"tokens", completion.tokens},
                                       {"ended_by", completion.stopped ? "stop" : "length"}};
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

StatusOr<bool> generateForPrompts(const RunOptions &options, Session &session, ControlChannel &control,
                                  std::FILE *out) {
  ZTC_ASSIGN_OR_RETURN(const std::shared_ptr<const TokenizerFolder> tokenizer, openTokenizer(options));
  ZTC_ASSIGN_OR_RETURN(const std::vector<std::string> given, readPrompts(options));
  const TextMaker maker(tokenizer, TextMaker::samplingOf(options), session.plan().model().vocabulary());
  std::vector<Prompt> prompts;
  for (size_t i = 0; i < given.size(); ++i) {
    auto made = maker.prompt(given[i]);
    if (!made.isOk())
      return made.status().withContext(options.prompt ? "--prompt" : fmt::format("--prompts: prompt {}", i + 1));
    prompts.push_back(std::move(*made));
  }
  ZTC_ASSIGN_OR_RETURN(const std::unique_ptr<NextTokenModel> model,
                       createForwardModel(session.plan(), session.executor()));
  const auto say = [&](std::string_view text) {
    if (!out)
      return;
    print(out, "{}", text);
    std::fflush(out);
  };
  if (options.prompt) {
    say(*options.prompt);
    ZTC_ASSIGN_OR_RETURN(const bool complete, maker.complete(
                                                  *model, control, prompts, *options.generate,
                                                  [&](size_t, std::string_view part) { say(part); }, nullptr));
    if (tokenizer)
      say("\n");
    return complete;
  }
  // A prompt that ends before one that stands before it waits for that one.
  std::vector<std::string> lines(prompts.size());
  size_t next = 0;
  const auto end = [&](size_t i, const Completion &completion) {
    lines[i] = completionJson(prompts[i], completion);
    for (; next < lines.size() && !lines[next].empty(); ++next)
      say(std::exchange(lines[next], {}));
  };
  return maker.complete(*model, control, prompts, *options.generate, nullptr, end);
}

} // namespace ztc
