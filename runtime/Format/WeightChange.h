// What an adapter makes of one tensor of the model that it was trained beside, in f32.
#pragma once
#include "runtime/Core/Status.h"
#include <cstdint>
#include <functional>
#include <vector>

namespace ztc {

/// W + scale * B A (Hu et al. 2021, "LoRA"); with magnitudes each output of that has the norm that they say (Liu et al.
/// 2024, "DoRA").
struct WeightChange {
  /// Makes elements [begin, begin + count) of a tensor as f32.
  using Elements = std::function<Status(uint64_t begin, uint64_t count, float *out)>;

  std::vector<float> a, b;      ///< (rank, inputs) and (outputs, rank); of a table (rank, rows) and (width, rank)
  std::vector<float> magnitude; ///< (outputs), of DoRA; empty without
  std::vector<float> whole;     ///< in place of the tensor
  std::vector<float> added;     ///< to it
  std::vector<float> rows;      ///< (numbers of rows, columns): in place of these rows
  std::vector<int64_t> numbers; ///< of rows
  uint64_t rank = 0;            ///< 0: there are no factors
  uint64_t experts = 1;         ///< of a stack (experts, outputs, inputs): a and b have those of each, expert by expert
  bool isTransposed = false;    ///< the tensor is (inputs, outputs), as a table is (rows, width)
  float scale = 1;

  /// Adds what is added to elements [begin, begin + count) of a row-major matrix of so many columns, and replaces what
  /// is replaced.
  void apply(uint64_t columns, uint64_t begin, uint64_t count, float *values) const;

  /// The norm of each output of the changed weight: of `elements` elements in rows of `columns`, which `weight` makes.
  StatusOr<std::vector<float>> norms(const Elements &weight, uint64_t elements, uint64_t columns) const;

  /// What each output is multiplied by in the end: magnitudes over norms; empty without magnitudes.
  StatusOr<std::vector<float>> factors(const Elements &weight, uint64_t elements, uint64_t columns) const;
  /// Multiplies elements [begin, begin + count) by those factors.
  void multiply(const std::vector<float> &factors, uint64_t columns, uint64_t begin, uint64_t count,
                float *values) const;
};

/// Elements of a tensor that are made at a time; a multiple of kNf4Block.
inline constexpr uint64_t kChangedElements = uint64_t(1) << 18;

} // namespace ztc
