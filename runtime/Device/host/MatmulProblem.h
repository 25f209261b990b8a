// What a product of matrices is.
#pragma once
#include "runtime/Format/plan.pb.h"
#include <compare>
#include <cstdint>

namespace ztc {

/// C = alpha * op(A) op(B) (+ C where `add`), row-major: op(A) is (m, k), op(B) is (k, n), C is (m, n). `lda` is the
/// distance of rows of A as it is stored, in elements, and so on.
struct MatmulProblem {
  uint64_t m = 0, n = 0, k = 0;
  uint64_t lda = 0, ldb = 0, ldc = 0;
  bool transposeA = false, transposeB = false;
  bool add = false;
  float alpha = 1;
  plan::DataType typeA = plan::F32, typeB = plan::F32, typeC = plan::F32;
  auto operator<=>(const MatmulProblem &) const = default;
};

} // namespace ztc
