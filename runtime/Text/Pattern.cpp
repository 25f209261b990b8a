#define PCRE2_CODE_UNIT_WIDTH 8
#include "runtime/Text/Pattern.h"
#include "runtime/Core/Print.h"
#include "runtime/Text/Unicode.h"
#include <fmt/format.h>
#include <pcre2.h>

namespace ztc {

namespace {

struct FreeCode {
  void operator()(pcre2_code *code) const { pcre2_code_free(code); }
};

/// How many times a match may call its own matching function: what a pattern with nested repetitions would need years
/// for ends here.
constexpr uint32_t kMostSteps = 10'000'000;
constexpr size_t kJitStackBytes = size_t(32) << 20;

/// What each thread needs to match.
struct MatchMemory {
  pcre2_match_data *data = pcre2_match_data_create(1, nullptr);
  pcre2_match_context *context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack *stack = pcre2_jit_stack_create(size_t(32) << 10, kJitStackBytes, nullptr);
  MatchMemory() {
    if (!context)
      return;
    pcre2_set_match_limit(context, kMostSteps);
    pcre2_jit_stack_assign(context, nullptr, stack);
  }
  ~MatchMemory() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
    pcre2_jit_stack_free(stack);
  }
};

std::string messageOf(int error) {
  PCRE2_UCHAR text[256];
  pcre2_get_error_message(error, text, sizeof text);
  return reinterpret_cast<const char *>(text);
}

} // namespace

struct Pattern::Code {
  std::unique_ptr<pcre2_code, FreeCode> compiled;
};

StatusOr<Pattern> Pattern::compile(std::string_view oniguruma) {
  const auto bad = [&](const std::string &why) {
    return invalidArgument(
        fmt::format("the regular expression '{}' cannot be used: {}", printable(oniguruma, 300), why));
  };
  auto translated = translatePattern(oniguruma);
  if (!translated.isOk())
    return bad(translated.status().message());
  std::unique_ptr<pcre2_compile_context, decltype(&pcre2_compile_context_free)> context(
      pcre2_compile_context_create(nullptr), pcre2_compile_context_free);
  if (!context)
    return resourceExhausted("no memory for a regular expression");
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  pcre2_set_parens_nest_limit(context.get(), 100);
  int error = 0;
  PCRE2_SIZE at = 0;
  // Ruby's ^ and $ are those of lines.
  pcre2_code *code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated->data()), translated->size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error, &at, context.get());
  if (!code)
    return bad(messageOf(error));
  (void)pcre2_jit_compile(code, PCRE2_JIT_COMPLETE); // without it it is slower, that is all
  auto made = std::make_shared<Code>();
  made->compiled.reset(code);
  Pattern pattern;
  pattern.code_ = std::move(made);
  return pattern;
}

StatusOr<Pattern> Pattern::literal(std::string_view text) {
  if (text.empty())
    return compile("");
  Pattern pattern;
  pattern.literal_ = text;
  return pattern;
}

StatusOr<Pattern> readPattern(const JsonFields &fields) {
  ZTC_ASSIGN_OR_RETURN(const JsonFields pattern, fields.object("pattern"));
  const bool isLiteral = pattern.find("String") != nullptr;
  ZTC_ASSIGN_OR_RETURN(const std::string text, pattern.text(isLiteral ? "String" : "Regex"));
  StatusOr<Pattern> made = isLiteral ? Pattern::literal(text) : Pattern::compile(text);
  return made.isOk() ? std::move(made) : StatusOr<Pattern>(made.status().withContext(fields.place()));
}

Status Pattern::split(std::string_view text, std::vector<TextMatch> &parts) const {
  parts.clear();
  size_t done = 0; // all before it is in parts
  const auto add = [&](size_t begin, size_t end) {
    if (done != begin)
      parts.push_back({done, begin, false});
    parts.push_back({begin, end, true});
    done = end;
  };
  if (!literal_.empty()) {
    for (size_t at = text.find(literal_); at != std::string_view::npos; at = text.find(literal_, done))
      add(at, at + literal_.size());
  } else {
    static thread_local MatchMemory memory;
    if (!memory.data || !memory.context || !memory.stack)
      return resourceExhausted("no memory to match regular expressions");
    const PCRE2_SIZE *found = pcre2_get_ovector_pointer(memory.data);
    const auto *subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    bool hasMatched = false;
    for (size_t at = 0; at <= text.size();) {
      const int count =
          pcre2_match(code_->compiled.get(), subject, text.size(), at, PCRE2_NO_UTF_CHECK, memory.data, memory.context);
      if (count == PCRE2_ERROR_NOMATCH)
        break;
      if (count < 0)
        return invalidArgument(fmt::format("a regular expression of the tokenizer gives up at byte {} of {}: {}", at,
                                           text.size(), messageOf(count)));
      const size_t begin = found[0], end = found[1];
      if (end < begin || begin < done) // \K in a lookaround may say so
        return invalidArgument("a regular expression of the tokenizer matches backwards");
      if (begin == end && hasMatched && end == done) { // an empty match right after the last one does not count
        at += at < text.size() ? characterBytes(text[at]) : 1;
        continue;
      }
      add(begin, end);
      hasMatched = true;
      at = end;
    }
  }
  if (done != text.size())
    parts.push_back({done, text.size(), false});
  return Status::ok();
}

} // namespace ztc
