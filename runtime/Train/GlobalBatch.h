// The rows of one optimizer step on this rank, kept in memory that is allocated once.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Train/RowSource.h"
#include <cstdint>
#include <span>
#include <vector>

namespace ztc {

/// M micro-batches of B rows of S tokens and targets, (M, B, S).
class GlobalBatch {
public:
  GlobalBatch(uint64_t microBatches, uint64_t batch, uint64_t seq);

  uint64_t microBatches() const { return microBatches_; }
  uint64_t rows() const { return microBatches_ * batch_; }
  uint64_t tokenCount() const { return tokens_.size(); }
  /// N: targets that are not negative, in all micro-batches.
  uint64_t countedTargets() const { return counted_; }
  std::span<const int32_t> tokens(uint64_t microBatch) const;
  std::span<const int32_t> targets(uint64_t microBatch) const;

  /// Reads rows first .. first + rows() of the sequence: the micro-batches in order, in each its rows in order.
  /// Where `available` is less than rows(), the rest is padding: token 0, no target counted.
  Status fill(RowSource &source, uint64_t first, uint64_t available = UINT64_MAX);

private:
  uint64_t microBatches_;
  uint64_t batch_;
  uint64_t seq_;
  uint64_t counted_ = 0;
  std::vector<int32_t> tokens_;  ///< (M, B, S)
  std::vector<int32_t> targets_; ///< (M, B, S)
};

} // namespace ztc
