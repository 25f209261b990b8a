// --generate: text, one position of logits at a time.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Executor/Executor.h"
#include "runtime/Format/plan.pb.h"
#include "runtime/Ranks/ControlChannel.h"
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

/// What a text goes on with.
struct Continuation {
  std::vector<int32_t> tokens = {}; ///< of the prompt, at least one
  uint64_t count = 0;               ///< tokens to write
  std::vector<int32_t> stops = {};  ///< the first of these ends it, and is not given
  std::function<int32_t(std::span<const float>, uint64_t)> choose = {}; ///< from logits, at a place
  std::function<Status(int32_t)> emit = {};                             ///< each token that was chosen
};

/// Writes tokens after a prompt. The window is the first row of the plan's batch: the text stands at its left, and when
/// S is full the oldest token leaves. All ranks run the program (it may gather weights) on the same text, which rank 0
/// chooses; a signal that rank 0 has seen ends it: then the result is false.
StatusOr<bool> generateTokens(const plan::Plan &plan, Executor &executor, ControlChannel &control,
                              const Continuation &text);

/// The same with bytes for tokens: the likeliest byte each time, the lowest of equals.
StatusOr<bool> generateText(const plan::Plan &plan, Executor &executor, ControlChannel &control,
                            std::string_view prompt, uint64_t count, const std::function<void(char)> &emit);

} // namespace ztc
