#include "runtime/Text/Normalizer.h"
#include "runtime/Text/Pattern.h"
#include "runtime/Text/Sequence.h"
#include "runtime/Text/Unicode.h"
#include <algorithm>
#include <fmt/format.h>
#include <functional>
#include <map>

namespace ztc {

namespace {

class UnicodeForm final : public Normalizer {
public:
  explicit UnicodeForm(NormalForm form) : form_(form) {}
  Status apply(NormalizedText &text) const override {
    const std::string start = normalizeUnicode(std::string_view(text.text).substr(0, text.startBytes), form_);
    text.text = normalizeUnicode(text.text, form_);
    // A mark that follows may come to stand among those of the first character: what is after it is not the start.
    auto common = static_cast<size_t>(std::ranges::mismatch(start, text.text).in1 - start.begin());
    while (common > 0 && common < text.text.size() && (static_cast<unsigned char>(text.text[common]) & 0xc0) == 0x80)
      --common; // within a character
    text.startBytes = common > 0 ? common : start.size();
    return Status::ok();
  }

private:
  NormalForm form_;
};

class Prepend final : public Normalizer {
public:
  explicit Prepend(std::string text) : text_(std::move(text)) {}
  Status apply(NormalizedText &text) const override {
    if (text.text.empty())
      return Status::ok();
    text.text.insert(0, text_);
    text.startBytes += text.startBytes ? text_.size() : 0;
    return Status::ok();
  }

private:
  std::string text_;
};

class Replace final : public Normalizer {
public:
  Replace(Pattern pattern, std::string content) : pattern_(std::move(pattern)), content_(std::move(content)) {}
  Status apply(NormalizedText &text) const override {
    if (text.text.empty())
      return Status::ok();
    std::vector<TextMatch> parts;
    ZTC_RETURN_IF_ERROR(pattern_.split(text.text, parts));
    std::string out;
    out.reserve(text.text.size());
    size_t start = 0;
    for (const TextMatch &part : parts) {
      if (part.matches)
        out += content_;
      else
        out.append(text.text, part.begin, part.end - part.begin);
      if (part.begin < text.startBytes)
        start = part.matches ? out.size() : out.size() - (part.end - std::min(part.end, text.startBytes));
    }
    text.startBytes = start;
    text.text = std::move(out);
    return Status::ok();
  }

private:
  Pattern pattern_;
  std::string content_;
};

class Strip final : public Normalizer {
public:
  Strip(bool left, bool right) : left_(left), right_(right) {}
  Status apply(NormalizedText &text) const override {
    size_t begin = 0, end = text.text.size();
    while (left_ && begin < end) {
      size_t next = begin;
      if (!isWhiteSpace(nextCharacter(text.text, next)))
        break;
      begin = next;
    }
    while (right_ && begin < end) {
      size_t last = end;
      if (!isWhiteSpace(previousCharacter(text.text, last)))
        break;
      end = last;
    }
    text.startBytes -= std::min(begin, text.startBytes);
    text.text = text.text.substr(begin, end - begin);
    return Status::ok();
  }

private:
  bool left_, right_;
};

/// Looks at one character after the other: writes what it becomes, maybe nothing.
class EachCharacter final : public Normalizer {
public:
  using Map = void (*)(std::string &out, char32_t character);
  explicit EachCharacter(Map map) : map_(map) {}
  Status apply(NormalizedText &text) const override {
    std::string out;
    out.reserve(text.text.size());
    size_t start = 0;
    for (size_t at = 0; at < text.text.size();) {
      const bool isStart = at < text.startBytes;
      map_(out, nextCharacter(text.text, at));
      if (isStart)
        start = out.size();
    }
    text.startBytes = start;
    text.text = std::move(out);
    return Status::ok();
  }

private:
  Map map_;
};

void withoutMarks(std::string &out, char32_t c) {
  if (!isMark(c))
    appendCharacter(out, c);
}

void withoutNonspacingMarks(std::string &out, char32_t c) {
  if (!isNonspacingMark(c))
    appendCharacter(out, c);
}

/// SentencePiece's nmt_nfkc without the normal form.
void machineTranslation(std::string &out, char32_t c) {
  if ((c >= 1 && c <= 8) || c == 0xb || (c >= 0xe && c <= 0x1f) || c == 0x7f || c == 0x8f || c == 0x9f)
    return;
  const bool isSpace = c == 9 || c == 0xa || c == 0xc || c == 0xd || c == 0x1680 || (c >= 0x200b && c <= 0x200f) ||
                       c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xfeff || c == 0xfffd;
  appendCharacter(out, isSpace ? ' ' : c);
}

void cleanText(std::string &out, char32_t c) {
  const bool isLine = c == '\t' || c == '\n' || c == '\r';
  if (c == 0 || c == 0xfffd || (!isLine && isOther(c)))
    return;
  appendCharacter(out, isLine || isWhiteSpace(c) ? ' ' : c);
}

/// BERT's: ideographs are words of their own.
void spaceIdeographs(std::string &out, char32_t c) {
  const bool isIdeograph = (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) ||
                           (c >= 0x20000 && c <= 0x2a6df) || (c >= 0x2a700 && c <= 0x2b73f) ||
                           (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) ||
                           (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
  if (isIdeograph)
    out += ' ';
  appendCharacter(out, c);
  if (isIdeograph)
    out += ' ';
}

class ByteLetters final : public Normalizer {
public:
  Status apply(NormalizedText &text) const override {
    std::string out;
    appendByteLetters(out, std::string_view(text.text).substr(0, text.startBytes));
    const size_t start = out.size();
    appendByteLetters(out, std::string_view(text.text).substr(text.startBytes));
    text.startBytes = start;
    text.text = std::move(out);
    return Status::ok();
  }
};

using Made = StatusOr<std::unique_ptr<Normalizer>>;

template <typename T, typename... Arguments> Made make(Arguments &&...arguments) {
  return Made(std::make_unique<T>(std::forward<Arguments>(arguments)...));
}

Made readReplace(const JsonFields &fields) {
  ZTC_ASSIGN_OR_RETURN(Pattern pattern, readPattern(fields));
  ZTC_ASSIGN_OR_RETURN(std::string content, fields.text("content"));
  return make<Replace>(std::move(pattern), std::move(content));
}

Made readBert(const JsonFields &fields) {
  ZTC_ASSIGN_OR_RETURN(const bool clean, fields.flag("clean_text", true));
  ZTC_ASSIGN_OR_RETURN(const bool ideographs, fields.flag("handle_chinese_chars", true));
  ZTC_ASSIGN_OR_RETURN(const bool lowercase, fields.flag("lowercase", true));
  ZTC_ASSIGN_OR_RETURN(const bool strip, fields.flag("strip_accents", lowercase));
  std::vector<std::unique_ptr<Normalizer>> parts;
  if (clean)
    parts.push_back(std::make_unique<EachCharacter>(cleanText));
  if (ideographs)
    parts.push_back(std::make_unique<EachCharacter>(spaceIdeographs));
  if (strip) {
    parts.push_back(std::make_unique<UnicodeForm>(NormalForm::D));
    parts.push_back(std::make_unique<EachCharacter>(withoutNonspacingMarks));
  }
  if (lowercase)
    parts.push_back(std::make_unique<EachCharacter>(appendLowercase));
  return make<Sequence<Normalizer, NormalizedText>>(std::move(parts));
}

const std::map<std::string, std::function<Made(const JsonFields &)>> &readers() {
  static const std::map<std::string, std::function<Made(const JsonFields &)>> all{
      {"Sequence",
       [](const JsonFields &fields) { return readSequence<Normalizer, NormalizedText>(fields, "normalizers"); }},
      {"Replace", readReplace},
      {"BertNormalizer", readBert},
      {"Precompiled", readPrecompiledNormalizer},
      {"NFC", [](const JsonFields &) { return make<UnicodeForm>(NormalForm::C); }},
      {"NFD", [](const JsonFields &) { return make<UnicodeForm>(NormalForm::D); }},
      {"NFKC", [](const JsonFields &) { return make<UnicodeForm>(NormalForm::KC); }},
      {"NFKD", [](const JsonFields &) { return make<UnicodeForm>(NormalForm::KD); }},
      {"Lowercase", [](const JsonFields &) { return make<EachCharacter>(appendLowercase); }},
      {"StripAccents", [](const JsonFields &) { return make<EachCharacter>(withoutMarks); }},
      {"Nmt", [](const JsonFields &) { return make<EachCharacter>(machineTranslation); }},
      {"ByteLevel", [](const JsonFields &) { return make<ByteLetters>(); }},
      {"Prepend",
       [](const JsonFields &fields) -> Made {
         ZTC_ASSIGN_OR_RETURN(std::string text, fields.text("prepend"));
         return make<Prepend>(std::move(text));
       }},
      {"Strip",
       [](const JsonFields &fields) -> Made {
         ZTC_ASSIGN_OR_RETURN(const bool left, fields.flag("strip_left"));
         ZTC_ASSIGN_OR_RETURN(const bool right, fields.flag("strip_right"));
         return make<Strip>(left, right);
       }},
  };
  return all;
}

} // namespace

StatusOr<std::unique_ptr<Normalizer>> Normalizer::read(const nlohmann::json *json, const std::string &place) {
  if (!json || json->is_null())
    return std::unique_ptr<Normalizer>();
  return readByType<std::unique_ptr<Normalizer>>(*json, place, readers());
}

} // namespace ztc
