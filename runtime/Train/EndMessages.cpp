#include "runtime/Train/EndMessages.h"
#include <fmt/format.h>

namespace ztc {

Status overflowEnd(const LoopPosition &position, const std::string &saved) {
  const LossScale &scale = position.lossScale;
  return failedPrecondition(fmt::format(
      "steps {} to {}: the gradients of {} steps in a row overflow fp16, at loss scales down to {}{}; try a smaller "
      "--lr, a longer --warmup, or compile with --precision=bf16",
      position.step - scale.skippedInARow, position.step - 1, scale.skippedInARow, 2 * scale.scale,
      saved.empty() ? "" : fmt::format(" (the weights are in {})", saved)));
}

Status divergenceEnd(const Divergence &divergence) {
  std::string text =
      fmt::format("step {}: the gradient norm is not finite, {}", divergence.step,
                  divergence.hasUpdated ? "the run has diverged" : "before any update of this run: it has diverged");
  if (!divergence.lastGood.empty())
    text += fmt::format("; {} is the last checkpoint before it", divergence.lastGood);
  else if (!divergence.resumed.empty())
    text += fmt::format("; the run went on from {}", divergence.resumed);
  text += divergence.hasUpdated
              ? "; try a smaller --lr or a longer --warmup"
              : "; no --lr can be the cause: the weights or the first rows give it, or a type that is too narrow for "
                "them (see whether a plan of --precision=fp32 does it too)";
  if (!divergence.suspected.empty())
    text += fmt::format("; the weights that gave it, which may be broken, are in {}: --resume does not take them",
                        divergence.suspected);
  return failedPrecondition(text);
}

} // namespace ztc
