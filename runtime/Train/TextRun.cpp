#include "runtime/Train/TextRun.h"
#include "runtime/Core/File.h"
#include "runtime/Core/Json.h"
#include "runtime/Core/Print.h"
#include "runtime/Core/SteadyClock.h"
#include "runtime/Text/Unicode.h"
#include "runtime/Train/Generate.h"
#include "runtime/Train/Sampling.h"
#include "runtime/Train/Session.h"
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
  return out;
}

/// That of --prompt, or those of --prompt-file: its lines, or the `prompt` of its JSON lines.
static StatusOr<std::vector<std::string>> readPrompts(const RunOptions &options) {
  if (options.prompt)
    return std::vector<std::string>{*options.prompt};
  const std::string &path = options.promptFile;
  ZTC_ASSIGN_OR_RETURN(const std::string text, readWholeFile(path));
  if (const std::optional<size_t> bad = findInvalidUtf8(text))
    return invalidArgument(fmt::format("--prompt-file: '{}' is not UTF-8 at byte {}", path, *bad));
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
      return invalidArgument(fmt::format("--prompt-file: '{}' line {} has no `prompt` that is a text", path, number));
    prompts.push_back(*prompt);
  }
  if (prompts.empty())
    return invalidArgument(fmt::format("--prompt-file: '{}' holds no prompt", path));
  return StatusOr<std::vector<std::string>>(std::move(prompts));
}

static StatusOr<std::vector<int32_t>> tokensOfPrompt(const std::string &prompt, const TokenizerFolder &tokenizer,
                                                     uint64_t vocabulary) {
  WordCache cache;
  std::vector<int32_t> inner;
  const Status encoded = tokenizer.tokenizer.encode(prompt, false, inner, cache);
  if (!encoded.isOk())
    return encoded.withContext("--prompt");
  std::vector<int32_t> tokens = tokenizer.tokenizer.surroundings().before;
  if (!tokens.empty() && !inner.empty() && inner[0] == tokens[0]) // a prompt that brings its own beginning
    tokens.clear();
  tokens.insert(tokens.end(), inner.begin(), inner.end());
  for (const int32_t token : tokens)
    if (uint64_t(token) >= vocabulary)
      return invalidArgument(fmt::format("--prompt becomes the token {} ({}), which lies beyond the model's vocabulary "
                                         "of {}: the tokenizer in '{}' and the model do not belong together",
                                         token, tokenizer.describe(token), vocabulary, tokenizer.folder));
  if (tokens.empty())
    return invalidArgument("--prompt becomes no token at all");
  return StatusOr<std::vector<int32_t>>(std::move(tokens));
}

StatusOr<bool> generateForPrompts(const RunOptions &options, Session &session, ControlChannel &control,
                                  std::FILE *out) {
  ZTC_ASSIGN_OR_RETURN(const std::shared_ptr<const TokenizerFolder> tokenizer, openTokenizer(options));
  ZTC_ASSIGN_OR_RETURN(const std::vector<std::string> prompts, readPrompts(options));
  const uint64_t vocabulary = session.plan().model().vocabulary();
  const Sampling sampling{.temperature = options.temperature.value_or(0),
                          .topK = options.topK.value_or(0),
                          .topP = options.topP.value_or(1),
                          .seed = options.seed.value_or(0)};
  const auto say = [&](std::string_view text) {
    if (!out)
      return;
    print(out, "{}", text);
    std::fflush(out);
  };
  for (size_t i = 0; i < prompts.size(); ++i) {
    Continuation text{.count = *options.generate};
    if (tokenizer) {
      ZTC_ASSIGN_OR_RETURN(text.tokens, tokensOfPrompt(prompts[i], *tokenizer, vocabulary));
      text.stops = tokenizer->stops;
    } else {
      ZTC_ASSIGN_OR_RETURN(text.tokens, tokensOfBytes(prompts[i], vocabulary));
    }
    const size_t known = tokenizer ? size_t(tokenizer->tokenizer.endOfIds()) : kByteTokens;
    text.choose = [&, i](std::span<const float> logits, uint64_t place) {
      return chooseToken(logits.first(std::min(logits.size(), known)), sampling, i, place);
    };
    std::optional<TextStream> stream;
    if (tokenizer)
      stream.emplace(tokenizer->tokenizer, text.tokens);
    text.emit = [&](int32_t token) -> Status {
      if (!stream) {
        const char byte = char(token);
        say({&byte, 1});
        return Status::ok();
      }
      ZTC_ASSIGN_OR_RETURN(const std::string part, stream->push(token));
      say(part);
      return Status::ok();
    };
    say(prompts[i]);
    ZTC_ASSIGN_OR_RETURN(const bool complete, generateTokens(session.plan(), session.executor(), control, text));
    if (stream) {
      ZTC_ASSIGN_OR_RETURN(const std::string rest, stream->finish());
      say(rest);
    }
    if (stream || prompts.size() > 1)
      say("\n");
    if (!complete)
      return false;
  }
  return true;
}

} // namespace ztc
