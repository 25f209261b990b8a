// Texts that go on, token by token, as many at a time as the model serves together.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Ranks/ControlChannel.h"
#include "runtime/Train/NextToken.h"
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

namespace ztc {

/// Tokens that stand for a byte; a larger vocabulary has tokens that cannot be printed.
inline constexpr uint64_t kByteTokens = 256;
/// The bytes of a prompt; InvalidArgument on one beyond the vocabulary.
StatusOr<std::vector<int32_t>> tokensOfBytes(std::string_view text, uint64_t vocabulary);

/// A text that is to go on.
struct Continuation {
  std::vector<int32_t> tokens = {}; ///< of the prompt, at least one; those that are chosen follow
  uint64_t count = 0;               ///< tokens to write
  std::span<const int32_t> stops;   ///< the first of these ends it, and is not given
  std::function<int32_t(std::span<const float>, uint64_t)> choose = {}; ///< from logits, at a place
  std::function<Status(int32_t)> emit = {};                             ///< each token that was chosen
  std::function<Status(bool stopped)> end = {}; ///< after the last one; `stopped`: one of `stops` came
};

/// Writes tokens after each text; one that ends gives its place to the next. All ranks run the model (it may gather
/// weights) on the same texts, which rank 0 chooses; a signal that rank 0 has seen ends them: then the result is false.
StatusOr<bool> generateTexts(NextTokenModel &model, ControlChannel &control, std::span<Continuation> texts);

} // namespace ztc
