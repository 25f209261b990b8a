// Tokens that are found in a text before the model sees it: special ones, and those that were added to a vocabulary.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Text/Normalizer.h"
#include "runtime/Text/Pieces.h"
#include "runtime/Text/TokenModel.h"
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ztc {

struct AddedToken {
  std::string content;
  bool singleWord = false; ///< not inside a word
  bool stripsLeft = false; ///< takes the white space before it
  bool stripsRight = false;
  bool normalized = false; ///< is looked for in the normalized text
  bool special = false;    ///< is left out of decoded text
  std::string sought;      ///< content as it is looked for
};

/// Finds the longest of several texts at the first place where one of them is.
class TextFinder {
public:
  void add(std::string_view text, int32_t token);
  bool isEmpty() const { return nodes_.size() == 1; }
  struct Found {
    size_t begin = 0;
    size_t end = 0;
    int32_t token = kNoToken; ///< none where nothing was found
  };
  Found find(std::string_view text, size_t from) const;

private:
  struct Node {
    int32_t token = kNoToken;
    std::map<char, uint32_t> next;
  };
  std::vector<Node> nodes_ = std::vector<Node>(1);
  std::array<bool, 256> begins_{}; ///< some text begins with this byte
};

class AddedTokens {
public:
  /// Their ids are those of the model where it knows them, else they come after its tokens, as in the tokenizers
  /// library: the `id` of the file is not looked at.
  static StatusOr<AddedTokens> read(const nlohmann::json *json, const TokenModel &model, const Normalizer *normalizer);

  /// Cuts `text` at its added tokens and normalizes what is between them.
  Status extract(std::string_view text, const Normalizer *normalizer, Pieces &pieces) const;

  /// Null where the id is none of theirs.
  const AddedToken *find(int32_t id) const;
  /// Nothing where no added token has this content.
  std::optional<int32_t> idOf(std::string_view content) const;
  /// The largest id and one; 0 without any.
  int32_t endOfIds() const { return tokens_.empty() ? 0 : tokens_.rbegin()->first + 1; }

private:
  /// `startBytes`: pieces that begin before are those at the start.
  void cut(std::string_view text, size_t startBytes, const TextFinder &finder, std::vector<Piece> &pieces) const;
  std::map<int32_t, AddedToken> tokens_;
  std::map<std::string, int32_t, std::less<>> ids_;
  TextFinder given_;      ///< in the text as it was given
  TextFinder normalized_; ///< in the normalized text
};

} // namespace ztc
