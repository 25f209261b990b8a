// The models of tokenizer.json: from a piece of text to tokens.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Text/JsonFields.h"
#include "runtime/Text/Vocabulary.h"
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace ztc {

/// Thread-safe.
class TokenModel {
public:
  virtual ~TokenModel() = default;
  /// Appends the tokens of a piece, which is valid UTF-8 and not empty. InvalidArgument where the model has no token
  /// for what it does not know.
  virtual Status encode(std::string_view piece, std::vector<int32_t> &tokens) const = 0;
  virtual const Vocabulary &vocabulary() const = 0;
  /// How many tokens there are: the first id that an added token gets.
  virtual size_t size() const = 0;

  static StatusOr<std::unique_ptr<TokenModel>> read(const nlohmann::json *json, const std::string &place);
};

/// Byte-pair encoding: the pair that was merged first in training is merged first here (Sennrich et al. 2016); with
/// fallback to tokens of bytes.
StatusOr<std::unique_ptr<TokenModel>> readBpe(const JsonFields &fields);
/// The likeliest segmentation under independent pieces (Kudo 2018), by dynamic programming.
StatusOr<std::unique_ptr<TokenModel>> readUnigram(const JsonFields &fields);
/// The longest token first, from left to right (BERT).
StatusOr<std::unique_ptr<TokenModel>> readWordPiece(const JsonFields &fields);
/// Each piece is a token.
StatusOr<std::unique_ptr<TokenModel>> readWordLevel(const JsonFields &fields);

} // namespace ztc
