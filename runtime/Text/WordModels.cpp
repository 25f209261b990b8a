#include "runtime/Core/Print.h"
#include "runtime/Text/TokenModel.h"
#include "runtime/Text/Unicode.h"
#include <fmt/format.h>
#include <functional>
#include <map>

namespace ztc {

namespace {

class WordPiece final : public TokenModel {
public:
  WordPiece(Vocabulary vocabulary, std::string prefix, uint64_t most, int32_t unknown)
      : vocabulary_(std::move(vocabulary)), prefix_(std::move(prefix)), most_(most), unknown_(unknown) {}
  const Vocabulary &vocabulary() const override { return vocabulary_; }
  size_t size() const override { return vocabulary_.size(); }

  Status encode(std::string_view piece, std::vector<int32_t> &tokens) const override {
    const size_t before = tokens.size();
    uint64_t characters = 0;
    for (size_t at = 0; at < piece.size(); at += characterBytes(piece[at]))
      ++characters;
    for (size_t begin = 0; begin < piece.size() && characters <= most_;) {
      std::optional<int32_t> found;
      size_t end = piece.size();
      while (begin < end) {
        found = begin > 0 ? vocabulary_.find(prefix_ + std::string(piece.substr(begin, end - begin)))
                          : vocabulary_.find(piece.substr(begin, end - begin));
        if (found)
          break;
        previousCharacter(piece, end);
      }
      if (!found) {
        characters = most_ + 1; // one part that is not known: the whole is not
        break;
      }
      tokens.push_back(*found);
      begin = end;
    }
    if (characters > most_) {
      tokens.resize(before);
      tokens.push_back(unknown_);
    }
    return Status::ok();
  }

private:
  Vocabulary vocabulary_;
  std::string prefix_;
  uint64_t most_; ///< characters of a word
  int32_t unknown_;
};

class WordLevel final : public TokenModel {
public:
  WordLevel(Vocabulary vocabulary, std::optional<int32_t> unknown)
      : vocabulary_(std::move(vocabulary)), unknown_(unknown) {}
  const Vocabulary &vocabulary() const override { return vocabulary_; }
  size_t size() const override { return vocabulary_.size(); }

  Status encode(std::string_view piece, std::vector<int32_t> &tokens) const override {
    const std::optional<int32_t> known = vocabulary_.find(piece);
    if (!known && !unknown_)
      return invalidArgument(
          fmt::format("the tokenizer has no token for '{}' and none for unknown words", printable(piece, 60)));
    tokens.push_back(known ? *known : *unknown_);
    return Status::ok();
  }

private:
  Vocabulary vocabulary_;
  std::optional<int32_t> unknown_;
};

} // namespace

StatusOr<std::unique_ptr<TokenModel>> readWordPiece(const JsonFields &fields) {
  ZTC_ASSIGN_OR_RETURN(Vocabulary vocabulary, Vocabulary::read(fields));
  ZTC_ASSIGN_OR_RETURN(const std::string unknownText, fields.text("unk_token"));
  ZTC_ASSIGN_OR_RETURN(std::string prefix, fields.text("continuing_subword_prefix"));
  ZTC_ASSIGN_OR_RETURN(const uint64_t most, fields.number("max_input_chars_per_word"));
  const std::optional<int32_t> unknown = vocabulary.find(unknownText);
  if (!unknown)
    return fields.error(fmt::format("'unk_token' is '{}', which is not in 'vocab'", printable(unknownText, 60)));
  return std::unique_ptr<TokenModel>(
      std::make_unique<WordPiece>(std::move(vocabulary), std::move(prefix), most, *unknown));
}

StatusOr<std::unique_ptr<TokenModel>> readWordLevel(const JsonFields &fields) {
  ZTC_ASSIGN_OR_RETURN(Vocabulary vocabulary, Vocabulary::read(fields));
  ZTC_ASSIGN_OR_RETURN(const std::string unknownText, fields.textOr("unk_token", ""));
  const std::optional<int32_t> unknown = vocabulary.find(unknownText);
  return std::unique_ptr<TokenModel>(std::make_unique<WordLevel>(std::move(vocabulary), unknown));
}

StatusOr<std::unique_ptr<TokenModel>> TokenModel::read(const nlohmann::json *json, const std::string &place) {
  using Made = StatusOr<std::unique_ptr<TokenModel>>;
  static const std::map<std::string, std::function<Made(const JsonFields &)>> all{
      {"BPE", readBpe}, {"Unigram", readUnigram}, {"WordPiece", readWordPiece}, {"WordLevel", readWordLevel}};
  if (!json)
    return invalidArgument(place + " is missing");
  if (json->is_object() && !json->contains("type")) { // files of older versions
    ZTC_ASSIGN_OR_RETURN(const JsonFields fields, JsonFields::of(*json, place));
    const nlohmann::json *tokens = fields.find("vocab");
    const char *type = fields.find("merges")                     ? "BPE"
                       : tokens && tokens->is_array()            ? "Unigram"
                       : fields.find("max_input_chars_per_word") ? "WordPiece"
                                                                 : "WordLevel";
    return all.at(type)(fields);
  }
  return readByType<std::unique_ptr<TokenModel>>(*json, place, all);
}

} // namespace ztc
