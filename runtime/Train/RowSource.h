// Where micro-batches come from: a data set in some order, or random tokens for a trial.
#pragma once
#include "runtime/Core/Packing.h"
#include "runtime/Core/Status.h"
#include <algorithm>
#include <cstdint>
#include <span>

namespace ztc {

/// An endless sequence of rows; row k is the same in every run with the same data, seed and order.
class RowSource {
public:
  virtual ~RowSource() = default;
  /// Writes row `index` of the sequence: S tokens and S targets (negative: not counted).
  virtual Status read(uint64_t index, std::span<int32_t> tokens, std::span<int32_t> targets) = 0;
  /// The same of a row that may hold several documents, and for each position where in the row its document starts:
  /// `starts` (S) comes filled with zeros, which stand for one.
  virtual Status readDocuments(uint64_t index, std::span<int32_t> tokens, std::span<int32_t> targets,
                               std::span<int32_t>) {
    return read(index, tokens, targets);
  }
  /// What no row goes beyond; nothing known: one document a row.
  virtual DocumentBounds documentBounds() const { return {}; }
  /// What the loss of each target (S) of the row is multiplied by; at least 0.
  virtual Status readWeights(uint64_t, std::span<float> weights) {
    std::ranges::fill(weights, 1.0f);
    return Status::ok();
  }
};

/// Uniform random tokens below `vocabulary`, each the target of the one before: for the trial run.
class RandomRows final : public RowSource {
public:
  RandomRows(uint64_t vocabulary, uint64_t seed) : vocabulary_(vocabulary), seed_(seed) {}
  Status read(uint64_t index, std::span<int32_t> tokens, std::span<int32_t> targets) override;

private:
  uint64_t vocabulary_;
  uint64_t seed_;
};

} // namespace ztc
