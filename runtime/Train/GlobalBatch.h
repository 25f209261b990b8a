// This rank's rows of one optimizer step, kept in memory that is allocated once.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Train/RowSource.h"
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

namespace ztc {

/// Which rows of a global batch a rank takes: in a sequence of rows they go first by micro-step, then by rank.
struct RowShare {
  uint64_t rank = 0;
  uint64_t world = 1;
};

/// A sum of weights that is exact, and so the same in whatever order and on however many ranks it is added up. Weights
/// are more than 0 and below 2^63; of one below 1 the bits after the 62nd are cut, but something of it stays.
class LossWeightSum {
public:
  void add(float weight) {
    const double floor = std::floor(double(weight));
    const auto part = uint64_t((double(weight) - floor) * kOne);
    add({uint64_t(floor), floor == 0 && part == 0 ? 1 : part});
  }
  void add(uint64_t count) { whole_ += count; }
  void add(LossWeightSum other) {
    part_ += other.part_;
    whole_ += other.whole_ + (part_ >> kBits);
    part_ &= (uint64_t(1) << kBits) - 1;
  }
  double value() const { return double(whole_) + double(part_) / kOne; }
  LossWeightSum() = default;

private:
  static constexpr int kBits = 62;
  static constexpr double kOne = double(uint64_t(1) << kBits);
  LossWeightSum(uint64_t whole, uint64_t part) : whole_(whole), part_(part) {}
  uint64_t whole_ = 0, part_ = 0; ///< part: in units of 2^-62
};

/// M micro-batches of B rows of S tokens and targets, (M, B, S): one rank's share of W * M * B rows.
class GlobalBatch {
public:
  /// `isWeighted`: targets have weights, which are read too.
  GlobalBatch(uint64_t microBatches, uint64_t batch, uint64_t seq, RowShare share = {}, bool isWeighted = false);

  uint64_t microBatches() const { return microBatches_; }
  /// Of all ranks together.
  uint64_t globalRows() const { return share_.world * microBatches_ * batch_; }
  uint64_t globalTokens() const { return globalRows() * seq_; }
  /// This rank's part of N: targets that are not negative, in all micro-batches.
  uint64_t countedTargets() const { return counted_; }
  /// What the summed loss is divided by, this rank's part: the sum of the weights of counted targets, their number
  /// where they have none. A target of weight 0 is not counted.
  const LossWeightSum &weightSum() const { return weightSum_; }
  /// This rank's positions without padding: up to the last target of each row that counts.
  uint64_t unpaddedTokens() const { return unpadded_; }
  /// How many tokens of the global batch stand before those of this rank's micro-step.
  int64_t firstToken(uint64_t microBatch) const {
    return int64_t((microBatch * share_.world + share_.rank) * batch_ * seq_);
  }
  std::span<const int32_t> tokens(uint64_t microBatch) const;
  std::span<const int32_t> targets(uint64_t microBatch) const;
  /// At which position of its row each position's document starts.
  std::span<const int32_t> documentStarts(uint64_t microBatch) const;
  /// Of the targets; empty where they have none.
  std::span<const float> weights(uint64_t microBatch) const;

  /// Reads this rank's rows of the global batch that begins at row `first` of the sequence: in micro-step m row b is
  /// first + (m W + rank) B + b. Those that are `available` rows or more after `first` are padding: token 0, no target
  /// counted. After a failure every row is padding.
  Status fill(RowSource &source, uint64_t first, uint64_t available = UINT64_MAX);

private:
  uint64_t microBatches_;
  uint64_t batch_;
  uint64_t seq_;
  RowShare share_;
  /// Row `row` of this rank with its weights, from row `index` of the sequence.
  Status readRow(RowSource &source, uint64_t row, uint64_t index);
  uint64_t counted_ = 0, unpadded_ = 0;
  LossWeightSum weightSum_;
  std::vector<int32_t> tokens_;  ///< (M, B, S)
  std::vector<int32_t> targets_; ///< (M, B, S)
  std::vector<int32_t> starts_;  ///< (M, B, S)
  std::vector<float> weights_;   ///< (M, B, S); empty where targets have none
};

} // namespace ztc
