// How many rows of logits a GPU works on at a time, where a plan is made.
#pragma once
#include "runtime/Format/plan.pb.h"
#include <cstdint>
#include <optional>

namespace ztc {

/// The head and loss of the training program.
struct TrainingLoss {
  uint64_t tokens = 0; ///< all rows; 0: the plan has no such step
  uint64_t vocabulary = 0;
  uint64_t rows = 0; ///< at a time on a GPU
};
TrainingLoss trainingLoss(const plan::Plan &plan);
/// Whether `step` is it: the backward part begins after it.
bool isTrainingLoss(const plan::Step &step);
/// What a step of head and loss computes on a GPU, chunk by chunk.
struct LossChunks {
  uint64_t tokens, width, vocabulary;
  uint64_t rows; ///< of a chunk, at most
  plan::DataType type;
  bool training, trainsHead;   ///< the latter: the head's cotangent is a third product
  plan::Accumulate accumulate; ///< of that cotangent, in the first chunk
};
/// Nothing of another step.
std::optional<LossChunks> lossChunks(const plan::Step &step);

/// Every head and loss of the plan works on at most `rows` (at least 1) rows at a time on a GPU, in chunks of about one
/// size. The bits of the head's gradient depend on it: each chunk's product is one sum, to which the next is added.
void setLossRows(plan::Plan &plan, uint64_t rows);

} // namespace ztc
