// tokenizer.json of a Hugging Face folder: from texts to tokens and back.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Text/AddedTokens.h"
#include "runtime/Text/Decoder.h"
#include "runtime/Text/Normalizer.h"
#include "runtime/Text/PostProcessor.h"
#include "runtime/Text/PreTokenizer.h"
#include "runtime/Text/TokenModel.h"
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ztc {

/// Tokens of the words that were seen: most words of a text are. One for each thread.
class WordCache {
public:
  WordCache();
  /// The tokens of `word`; null where it was not seen.
  const std::vector<int32_t> *find(std::string_view word, uint64_t hash) const;
  void put(std::string_view word, uint64_t hash, std::span<const int32_t> tokens);
  static uint64_t hashOf(std::string_view word);

private:
  struct Entry {
    uint64_t hash = 0;
    std::string word;
    std::vector<int32_t> tokens;
  };
  std::vector<Entry> entries_; ///< by hash; a newer word takes an older one's place
};

/// Gives the tokens that the tokenizers library gives for the same file; truncation and padding, which that file may
/// ask for too, are not done. Thread-safe.
class Tokenizer {
public:
  /// Of `folder`/tokenizer.json.
  static StatusOr<Tokenizer> open(const std::string &folder);
  /// `path` is for messages. InvalidArgument, with the place in the file, on what is not known or does not fit.
  static StatusOr<Tokenizer> parse(std::string_view json, const std::string &path);

  /// Appends the tokens of a text. InvalidArgument where it is not UTF-8. `addsSpecial`: with those that the
  /// post-processor puts around it.
  Status encode(std::string_view text, bool addsSpecial, std::vector<int32_t> &tokens, WordCache &cache) const;
  StatusOr<std::string> decode(std::span<const int32_t> tokens, bool skipsSpecial) const;

  /// The tokens that the post-processor puts before and after a text.
  struct Surroundings {
    std::vector<int32_t> before, after;
  };
  Surroundings surroundings() const;

  /// The token's text as the file has it; nothing where no token has this id.
  std::optional<std::string> textOf(int32_t token) const;
  std::optional<int32_t> idOf(std::string_view text) const;
  bool isSpecial(int32_t token) const {
    const AddedToken *added = added_.find(token);
    return added && added->special;
  }
  /// The largest id and one.
  int32_t endOfIds() const { return endOfIds_; }
  const std::string &sha256() const { return sha256_; } ///< of tokenizer.json

private:
  Tokenizer() = default;
  std::unique_ptr<Normalizer> normalizer_;
  std::unique_ptr<PreTokenizer> preTokenizer_;
  std::unique_ptr<TokenModel> model_;
  AddedTokens added_;
  PostProcessor postProcessor_;
  std::unique_ptr<Decoder> decoder_;
  int32_t endOfIds_ = 0;
  std::string sha256_;
};

/// Text from tokens as they come: what is not whole yet (bytes of a character) is held back.
class TextStream {
public:
  /// `before`: the tokens that the text goes on from; their text is out already. After them special tokens are
  /// neighbours as others are, though their own text is left out.
  explicit TextStream(const Tokenizer &tokenizer, std::span<const int32_t> before = {});
  /// The text that `token` completes, maybe empty.
  StatusOr<std::string> push(int32_t token);
  /// What was held back.
  StatusOr<std::string> finish();

private:
  StatusOr<std::string> textOf(size_t tokens) const;
  const Tokenizer &tokenizer_;
  bool goesOn_;                 ///< from a prompt
  std::vector<int32_t> tokens_; ///< the last ones: decoders look at neighbours
  size_t told_ = 0;             ///< of them, those whose text is out
};

} // namespace ztc
