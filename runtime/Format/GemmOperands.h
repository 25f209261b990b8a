// Which operands of a step of a matrix product follow A, B, C and the workspace.
#pragma once
#include "runtime/Format/plan.pb.h"

namespace ztc {

/// They follow each other in this order; each may be absent.
struct GemmOperands {
  bool matrix = false; ///< added to the product, before the bias
  bool bias = false;   ///< added to each row
  bool sums = false;   ///< with GELU: takes the rounded sums that GELU is computed from

  static constexpr int kMatrix = 4, kSums = 5; ///< sums are there only with a bias and without a matrix
  int biasIndex() const { return kMatrix + matrix; }
  /// All operands of a product that has any of these.
  int count() const { return kMatrix + matrix + bias + sums; }

  static GemmOperands of(const plan::Step &step) {
    const plan::Gemm &gemm = step.gemm();
    const int count = step.operands_size();
    const bool bias = gemm.bias() && count > kMatrix;
    return {!gemm.gelu() && count > kMatrix + bias, bias, gemm.gelu() && count > kSums};
  }
};

} // namespace ztc
