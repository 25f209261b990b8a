// --generate: greedy text, one position of logits at a time.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Executor/Executor.h"
#include "runtime/Format/plan.pb.h"
#include "runtime/Ranks/ControlChannel.h"
#include <cstdint>
#include <functional>
#include <string_view>

namespace ztc {

/// Writes `count` bytes after `prompt` (bytes tokenizer: token = byte): the likeliest byte each time, the lowest of
/// equals. The window is the first row of the plan's batch: the text stands at its left, and when S is full the oldest
/// byte leaves. All ranks run the program (it may gather weights) on the same text, which rank 0 chooses; a signal that
/// rank 0 has seen ends it: then the result is false.
StatusOr<bool> generateText(const plan::Plan &plan, Executor &executor, ControlChannel &control,
                            std::string_view prompt, uint64_t count, const std::function<void(char)> &emit);

} // namespace ztc
