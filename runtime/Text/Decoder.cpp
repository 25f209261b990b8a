#include "runtime/Text/Decoder.h"
#include "runtime/Text/Pattern.h"
#include "runtime/Text/PreTokenizer.h"
#include "runtime/Text/Sequence.h"
#include "runtime/Text/Unicode.h"
#include <array>
#include <fmt/format.h>
#include <functional>
#include <map>
#include <utility>

namespace ztc {

namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

void replaceAll(std::string &text, std::string_view what, std::string_view with) {
  for (size_t at = text.find(what); !what.empty() && at != std::string::npos; at = text.find(what, at + with.size()))
    text.replace(at, what.size(), with);
}

/// Letters of GPT-2's alphabet are bytes; a token with any other character is itself.
class ByteLevel final : public Decoder {
public:
  Status apply(std::vector<std::string> &texts) const override {
    std::string bytes;
    for (const std::string &text : texts) {
      const size_t before = bytes.size();
      for (size_t at = 0; at < text.size();) {
        const std::optional<uint8_t> byte = byteOfLetter(nextCharacter(text, at));
        if (!byte) {
          bytes.resize(before);
          bytes += text;
          break;
        }
        bytes += static_cast<char>(*byte);
      }
    }
    texts = {replaceInvalidUtf8(bytes)};
    return Status::ok();
  }
};

/// <0x0A> are bytes; those in a row that are not UTF-8 together are U+FFFD each.
class ByteFallback final : public Decoder {
public:
  Status apply(std::vector<std::string> &texts) const override {
    std::vector<std::string> out;
    std::string bytes;
    const auto flush = [&] {
      if (bytes.empty())
        return;
      if (findInvalidUtf8(bytes))
        out.insert(out.end(), bytes.size(), std::string(kReplacement));
      else
        out.push_back(bytes);
      bytes.clear();
    };
    for (std::string &text : texts) {
      if (const std::optional<uint8_t> byte = byteOf(text)) {
        bytes += static_cast<char>(*byte);
        continue;
      }
      flush();
      out.push_back(std::move(text));
    }
    flush();
    texts = std::move(out);
    return Status::ok();
  }

private:
  static std::optional<uint8_t> byteOf(std::string_view text) {
    if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>')
      return std::nullopt;
    uint8_t value = 0;
    for (const char c : text.substr(3, 2)) {
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0)
        return std::nullopt;
      value = static_cast<uint8_t>(value * 16 + digit);
    }
    return value;
  }
};

class Fuse final : public Decoder {
public:
  Status apply(std::vector<std::string> &texts) const override {
    std::string all;
    for (const std::string &text : texts)
      all += text;
    texts = {std::move(all)};
    return Status::ok();
  }
};

class Replace final : public Decoder {
public:
  Replace(Pattern pattern, std::string content) : pattern_(std::move(pattern)), content_(std::move(content)) {}
  Status apply(std::vector<std::string> &texts) const override {
    std::vector<TextMatch> parts;
    for (std::string &text : texts) {
      if (text.empty())
        continue;
      ZTC_RETURN_IF_ERROR(pattern_.split(text, parts));
      std::string out;
      for (const TextMatch &part : parts)
        out += part.matches ? content_ : text.substr(part.begin, part.end - part.begin);
      text = std::move(out);
    }
    return Status::ok();
  }

private:
  Pattern pattern_;
  std::string content_;
};

/// Takes a character away from both ends of each token, so many times at most.
class Strip final : public Decoder {
public:
  Strip(std::string content, uint64_t start, uint64_t stop)
      : content_(std::move(content)), start_(start), stop_(stop) {}
  Status apply(std::vector<std::string> &texts) const override {
    for (std::string &text : texts) {
      std::string_view left = text;
      for (uint64_t i = 0; i < start_ && left.starts_with(content_); ++i)
        left.remove_prefix(content_.size());
      for (uint64_t i = 0; i < stop_ && left.ends_with(content_); ++i)
        left.remove_suffix(content_.size());
      text = std::string(left);
    }
    return Status::ok();
  }

private:
  std::string content_;
  uint64_t start_, stop_;
};

class Metaspace final : public Decoder {
public:
  explicit Metaspace(MetaspaceFields fields) : fields_(std::move(fields)) {}
  Status apply(std::vector<std::string> &texts) const override {
    const bool dropsFirst = fields_.prepend != MetaspaceFields::Prepend::Never;
    for (size_t i = 0; i < texts.size(); ++i)
      replaceAll(texts[i], fields_.replacement, i == 0 && dropsFirst ? "" : " ");
    return Status::ok();
  }

private:
  MetaspaceFields fields_;
};

/// The end of a word is a space, but for the last one's.
class WordEnds final : public Decoder {
public:
  explicit WordEnds(std::string suffix) : suffix_(std::move(suffix)) {}
  Status apply(std::vector<std::string> &texts) const override {
    for (size_t i = 0; i < texts.size(); ++i)
      replaceAll(texts[i], suffix_, i + 1 < texts.size() ? " " : "");
    return Status::ok();
  }

private:
  std::string suffix_;
};

class WordPiece final : public Decoder {
public:
  WordPiece(std::string prefix, bool cleansUp) : prefix_(std::move(prefix)), cleansUp_(cleansUp) {}
  Status apply(std::vector<std::string> &texts) const override {
    static constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kCleanUp{{{" .", "."},
                                                                                             {" ?", "?"},
                                                                                             {" !", "!"},
                                                                                             {" ,", ","},
                                                                                             {" ' ", "'"},
                                                                                             {" n't", "n't"},
                                                                                             {" 'm", "'m"},
                                                                                             {" do not", " don't"},
                                                                                             {" 's", "'s"},
                                                                                             {" 've", "'ve"},
                                                                                             {" 're", "'re"}}};
    for (size_t i = 0; i < texts.size(); ++i) {
      if (i > 0 && texts[i].starts_with(prefix_))
        texts[i].erase(0, prefix_.size());
      else if (i > 0)
        texts[i].insert(0, " ");
      for (const auto &[from, to] : kCleanUp)
        if (cleansUp_)
          replaceAll(texts[i], from, to);
    }
    return Status::ok();
  }

private:
  std::string prefix_;
  bool cleansUp_;
};

using Made = StatusOr<std::unique_ptr<Decoder>>;

template <typename T, typename... Arguments> Made make(Arguments &&...arguments) {
  return Made(std::make_unique<T>(std::forward<Arguments>(arguments)...));
}

const std::map<std::string, std::function<Made(const JsonFields &)>> &readers() {
  static const std::map<std::string, std::function<Made(const JsonFields &)>> all{
      {"ByteLevel", [](const JsonFields &) { return make<ByteLevel>(); }},
      {"ByteFallback", [](const JsonFields &) { return make<ByteFallback>(); }},
      {"Fuse", [](const JsonFields &) { return make<Fuse>(); }},
      {"Sequence",
       [](const JsonFields &fields) { return readSequence<Decoder, std::vector<std::string>>(fields, "decoders"); }},
      {"Replace",
       [](const JsonFields &fields) -> Made {
         ZTC_ASSIGN_OR_RETURN(Pattern pattern, readPattern(fields));
         ZTC_ASSIGN_OR_RETURN(std::string content, fields.text("content"));
         return make<Replace>(std::move(pattern), std::move(content));
       }},
      {"Strip",
       [](const JsonFields &fields) -> Made {
         ZTC_ASSIGN_OR_RETURN(const char32_t character, fields.character("content"));
         ZTC_ASSIGN_OR_RETURN(const uint64_t start, fields.number("start"));
         ZTC_ASSIGN_OR_RETURN(const uint64_t stop, fields.number("stop"));
         std::string content;
         appendCharacter(content, character);
         return make<Strip>(std::move(content), start, stop);
       }},
      {"Metaspace",
       [](const JsonFields &fields) -> Made {
         ZTC_ASSIGN_OR_RETURN(MetaspaceFields read, readMetaspace(fields));
         return make<Metaspace>(std::move(read));
       }},
      {"BPEDecoder",
       [](const JsonFields &fields) -> Made {
         ZTC_ASSIGN_OR_RETURN(std::string suffix, fields.text("suffix"));
         return make<WordEnds>(std::move(suffix));
       }},
      {"WordPiece",
       [](const JsonFields &fields) -> Made {
         ZTC_ASSIGN_OR_RETURN(std::string prefix, fields.text("prefix"));
         ZTC_ASSIGN_OR_RETURN(const bool cleansUp, fields.flag("cleanup"));
         return make<WordPiece>(std::move(prefix), cleansUp);
       }},
  };
  return all;
}

} // namespace

StatusOr<std::unique_ptr<Decoder>> Decoder::read(const nlohmann::json *json, const std::string &place) {
  if (!json || json->is_null())
    return std::unique_ptr<Decoder>();
  return readByType<std::unique_ptr<Decoder>>(*json, place, readers());
}

} // namespace ztc
