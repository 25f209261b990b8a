#include "runtime/Text/PreTokenizer.h"
#include "runtime/Text/Sequence.h"
#include "runtime/Text/Unicode.h"
#include <fmt/format.h>
#include <functional>
#include <map>

namespace ztc {

void joinParts(std::vector<TextMatch> &parts, SplitBehavior behavior) {
  std::vector<TextMatch> out;
  out.reserve(parts.size());
  bool previous = false;
  switch (behavior) {
  case SplitBehavior::Isolated:
    out = std::move(parts);
    break;
  case SplitBehavior::Removed:
    for (const TextMatch &part : parts)
      if (!part.matches)
        out.push_back(part);
    break;
  case SplitBehavior::Contiguous:
  case SplitBehavior::MergedWithPrevious:
    for (const TextMatch &part : parts) {
      const bool joins = behavior == SplitBehavior::Contiguous ? part.matches == previous : part.matches && !previous;
      if (joins && !out.empty())
        out.back().end = part.end;
      else
        out.push_back(part);
      previous = part.matches;
    }
    break;
  case SplitBehavior::MergedWithNext:
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
      if (part->matches && !previous && !out.empty())
        out.back().begin = part->begin;
      else
        out.push_back(*part);
      previous = part->matches;
    }
    out = std::vector<TextMatch>(out.rbegin(), out.rend());
    break;
  }
  std::erase_if(out, [](const TextMatch &part) { return part.begin == part.end; });
  parts = std::move(out);
}

namespace {

/// Cuts each piece; `cut` gets its text and fills parts, behaviour applied.
template <typename Cut> Status cutPieces(Pieces &pieces, Cut cut) {
  std::vector<Piece> out;
  out.reserve(pieces.pieces.size());
  std::vector<TextMatch> parts;
  for (const Piece &piece : pieces.pieces) {
    if (piece.token != kNoToken) {
      out.push_back(piece);
      continue;
    }
    parts.clear();
    ZTC_RETURN_IF_ERROR(cut(pieces.of(piece), parts));
    for (const TextMatch &part : parts)
      out.push_back({piece.begin + part.begin, piece.begin + part.end, kNoToken, piece.atStart && part.begin == 0});
  }
  pieces.pieces = std::move(out);
  return Status::ok();
}

/// Writes each piece anew; `write` appends its text.
template <typename Write> void rewritePieces(Pieces &pieces, Write write) {
  std::string out;
  out.reserve(pieces.text.size() * 3 / 2);
  for (Piece &piece : pieces.pieces) {
    const size_t begin = out.size();
    if (piece.token != kNoToken)
      out += pieces.of(piece);
    else
      write(piece, out);
    piece.begin = begin;
    piece.end = out.size();
  }
  pieces.text = std::move(out);
}

/// Parts of one character each where `is` says so.
template <typename Is> void cutAtCharacters(std::string_view text, std::vector<TextMatch> &parts, const Is &is) {
  size_t done = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    if (!is(nextCharacter(text, at)))
      continue;
    if (done != begin)
      parts.push_back({done, begin, false});
    parts.push_back({begin, at, true});
    done = at;
  }
  if (done != text.size())
    parts.push_back({done, text.size(), false});
}

class Split final : public PreTokenizer {
public:
  Split(Pattern pattern, SplitBehavior behavior, bool inverted)
      : pattern_(std::move(pattern)), behavior_(behavior), inverted_(inverted) {}
  Status apply(Pieces &pieces) const override {
    return cutPieces(pieces, [&](std::string_view text, std::vector<TextMatch> &parts) -> Status {
      ZTC_RETURN_IF_ERROR(pattern_.split(text, parts));
      for (TextMatch &part : parts)
        part.matches ^= inverted_;
      joinParts(parts, behavior_);
      return Status::ok();
    });
  }

private:
  Pattern pattern_;
  SplitBehavior behavior_;
  bool inverted_;
};

class CharacterSplit final : public PreTokenizer {
public:
  CharacterSplit(std::function<bool(char32_t)> is, SplitBehavior behavior) : is_(std::move(is)), behavior_(behavior) {}
  Status apply(Pieces &pieces) const override {
    return cutPieces(pieces, [&](std::string_view text, std::vector<TextMatch> &parts) {
      cutAtCharacters(text, parts, is_);
      joinParts(parts, behavior_);
      return Status::ok();
    });
  }

private:
  std::function<bool(char32_t)> is_;
  SplitBehavior behavior_;
};

/// Words, and what is neither word nor space.
class Whitespace final : public PreTokenizer {
public:
  Status apply(Pieces &pieces) const override {
    return cutPieces(pieces, [&](std::string_view text, std::vector<TextMatch> &parts) {
      enum class Kind { Space, Word, Other } last = Kind::Space;
      for (size_t at = 0; at < text.size();) {
        const size_t begin = at;
        const char32_t c = nextCharacter(text, at);
        const Kind kind = isWordCharacter(c) ? Kind::Word : isWhiteSpace(c) ? Kind::Space : Kind::Other;
        if (kind != Kind::Space && kind == last)
          parts.back().end = at;
        else if (kind != Kind::Space)
          parts.push_back({begin, at, false});
        last = kind;
      }
      return Status::ok();
    });
  }
};

class FixedLength final : public PreTokenizer {
public:
  explicit FixedLength(uint64_t length) : length_(length) {}
  Status apply(Pieces &pieces) const override {
    return cutPieces(pieces, [&](std::string_view text, std::vector<TextMatch> &parts) {
      uint64_t characters = 0;
      for (size_t at = 0; at < text.size(); ++characters) {
        const size_t begin = at;
        at += characterBytes(text[at]);
        if (characters % length_ == 0)
          parts.push_back({begin, at, false});
        parts.back().end = at;
      }
      return Status::ok();
    });
  }

private:
  uint64_t length_;
};

class Metaspace final : public PreTokenizer {
public:
  explicit Metaspace(MetaspaceFields fields) : fields_(std::move(fields)) {
    size_t at = 0;
    character_ = nextCharacter(fields_.replacement, at);
  }
  Status apply(Pieces &pieces) const override {
    rewritePieces(pieces, [&](const Piece &piece, std::string &out) {
      const std::string_view text = pieces.of(piece);
      using Prepend = MetaspaceFields::Prepend;
      const bool prepends = fields_.prepend == Prepend::Always || (fields_.prepend == Prepend::First && piece.atStart);
      if (prepends && !text.starts_with(' ') && !text.starts_with(fields_.replacement))
        out += fields_.replacement;
      for (const char c : text) {
        if (c == ' ')
          out += fields_.replacement;
        else
          out += c;
      }
    });
    if (!fields_.split)
      return Status::ok();
    return cutPieces(pieces, [&](std::string_view text, std::vector<TextMatch> &parts) {
      cutAtCharacters(text, parts, [&](char32_t c) { return c == character_; });
      joinParts(parts, SplitBehavior::MergedWithNext);
      return Status::ok();
    });
  }

private:
  MetaspaceFields fields_;
  char32_t character_ = 0;
};

class ByteLevel final : public PreTokenizer {
public:
  ByteLevel(bool addsSpace, std::optional<Pattern> pattern) : addsSpace_(addsSpace), pattern_(std::move(pattern)) {}
  Status apply(Pieces &pieces) const override {
    if (addsSpace_)
      rewritePieces(pieces, [&](const Piece &piece, std::string &out) {
        const std::string_view text = pieces.of(piece);
        if (!text.starts_with(' '))
          out += ' ';
        out += text;
      });
    if (pattern_)
      ZTC_RETURN_IF_ERROR(cutPieces(pieces, [&](std::string_view text, std::vector<TextMatch> &parts) -> Status {
        ZTC_RETURN_IF_ERROR(pattern_->split(text, parts));
        joinParts(parts, SplitBehavior::Isolated);
        return Status::ok();
      }));
    rewritePieces(pieces, [&](const Piece &piece, std::string &out) { appendByteLetters(out, pieces.of(piece)); });
    return Status::ok();
  }

private:
  bool addsSpace_;
  std::optional<Pattern> pattern_;
};

using Made = StatusOr<std::unique_ptr<PreTokenizer>>;

template <typename T, typename... Arguments> Made make(Arguments &&...arguments) {
  return Made(std::make_unique<T>(std::forward<Arguments>(arguments)...));
}

StatusOr<SplitBehavior> readBehavior(const JsonFields &fields, std::string_view otherwise) {
  static const std::map<std::string, SplitBehavior> all{
      {"Removed", SplitBehavior::Removed},
      {"Isolated", SplitBehavior::Isolated},
      {"MergedWithPrevious", SplitBehavior::MergedWithPrevious},
      {"MergedWithNext", SplitBehavior::MergedWithNext},
      {"Contiguous", SplitBehavior::Contiguous},
  };
  ZTC_ASSIGN_OR_RETURN(const std::string name, fields.textOr("behavior", otherwise));
  const auto found = all.find(name);
  if (found == all.end())
    return fields.error(fmt::format("the behavior '{}' is not known", printable(name, 60)));
  return found->second;
}

Made readSplit(const JsonFields &fields) {
  ZTC_ASSIGN_OR_RETURN(Pattern pattern, readPattern(fields));
  ZTC_ASSIGN_OR_RETURN(const SplitBehavior behavior, readBehavior(fields, ""));
  ZTC_ASSIGN_OR_RETURN(const bool inverted, fields.flag("invert"));
  return make<Split>(std::move(pattern), behavior, inverted);
}

Made readByteLevel(const JsonFields &fields) {
  // GPT-2's (encoder.py of openai/gpt-2).
  static constexpr std::string_view kPattern =
      R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
  ZTC_ASSIGN_OR_RETURN(const bool addsSpace, fields.flag("add_prefix_space"));
  ZTC_ASSIGN_OR_RETURN(const bool usesPattern, fields.flag("use_regex", true));
  std::optional<Pattern> pattern;
  if (usesPattern) {
    ZTC_ASSIGN_OR_RETURN(pattern, Pattern::compile(kPattern));
  }
  return make<ByteLevel>(addsSpace, std::move(pattern));
}

Made readBert(const JsonFields &) {
  std::vector<std::unique_ptr<PreTokenizer>> parts;
  parts.push_back(std::make_unique<CharacterSplit>(isWhiteSpace, SplitBehavior::Removed));
  parts.push_back(std::make_unique<CharacterSplit>(isPunctuation, SplitBehavior::Isolated));
  return make<Sequence<PreTokenizer, Pieces>>(std::move(parts));
}

const std::map<std::string, std::function<Made(const JsonFields &)>> &readers() {
  static const std::map<std::string, std::function<Made(const JsonFields &)>> all{
      {"Sequence",
       [](const JsonFields &fields) { return readSequence<PreTokenizer, Pieces>(fields, "pretokenizers"); }},
      {"Split", readSplit},
      {"ByteLevel", readByteLevel},
      {"BertPreTokenizer", readBert},
      {"Whitespace", [](const JsonFields &) { return make<Whitespace>(); }},
      {"WhitespaceSplit",
       [](const JsonFields &) { return make<CharacterSplit>(isWhiteSpace, SplitBehavior::Removed); }},
      {"Metaspace",
       [](const JsonFields &fields) -> Made {
         ZTC_ASSIGN_OR_RETURN(MetaspaceFields read, readMetaspace(fields));
         return make<Metaspace>(std::move(read));
       }},
      {"Digits",
       [](const JsonFields &fields) -> Made {
         ZTC_ASSIGN_OR_RETURN(const bool single, fields.flag("individual_digits"));
         return make<CharacterSplit>(isNumeric, single ? SplitBehavior::Isolated : SplitBehavior::Contiguous);
       }},
      {"Punctuation",
       [](const JsonFields &fields) -> Made {
         ZTC_ASSIGN_OR_RETURN(const SplitBehavior behavior, readBehavior(fields, "Isolated"));
         return make<CharacterSplit>(isPunctuation, behavior);
       }},
      {"CharDelimiterSplit",
       [](const JsonFields &fields) -> Made {
         ZTC_ASSIGN_OR_RETURN(const char32_t delimiter, fields.character("delimiter"));
         return make<CharacterSplit>([delimiter](char32_t c) { return c == delimiter; }, SplitBehavior::Removed);
       }},
      {"FixedLength",
       [](const JsonFields &fields) -> Made {
         uint64_t length = 5;
         if (fields.find("length")) {
           ZTC_ASSIGN_OR_RETURN(length, fields.number("length"));
         }
         if (length == 0)
           return fields.error("'length' is 0");
         return make<FixedLength>(length);
       }},
  };
  return all;
}

} // namespace

StatusOr<MetaspaceFields> readMetaspace(const JsonFields &fields) {
  MetaspaceFields out;
  ZTC_ASSIGN_OR_RETURN(const char32_t replacement, fields.character("replacement"));
  appendCharacter(out.replacement, replacement);
  ZTC_ASSIGN_OR_RETURN(const std::string prepend, fields.textOr("prepend_scheme", "always"));
  ZTC_ASSIGN_OR_RETURN(const bool addsSpace, fields.flag("add_prefix_space", true));
  using Prepend = MetaspaceFields::Prepend;
  if (prepend != "always" && prepend != "first" && prepend != "never")
    return fields.error(fmt::format("the prepend_scheme '{}' is not known", printable(prepend, 60)));
  out.prepend = prepend == "never" || !addsSpace ? Prepend::Never
                : prepend == "first"             ? Prepend::First
                                                 : Prepend::Always;
  ZTC_ASSIGN_OR_RETURN(out.split, fields.flag("split", true));
  return out;
}

StatusOr<std::unique_ptr<PreTokenizer>> PreTokenizer::read(const nlohmann::json *json, const std::string &place) {
  if (!json || json->is_null())
    return std::unique_ptr<PreTokenizer>();
  return readByType<std::unique_ptr<PreTokenizer>>(*json, place, readers());
}

} // namespace ztc
