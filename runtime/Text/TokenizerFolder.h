// The tokenizer of a model's folder, with what its other files say of tokens.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Text/Tokenizer.h"
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ztc {

struct TokenizerFolder {
  std::string folder;
  Tokenizer tokenizer;
  /// What ends a document: eos_token of tokenizer_config.json, else the first eos_token_id of config.json.
  std::optional<int32_t> endOfText;
  /// What ends generated text: every eos_token_id of generation_config.json, else of config.json, and endOfText.
  std::vector<int32_t> stops;

  static StatusOr<std::shared_ptr<const TokenizerFolder>> open(const std::string &folder);
  /// "'<|im_end|>'", or what is said where no token has this id.
  std::string describe(int32_t token) const;
};

} // namespace ztc
