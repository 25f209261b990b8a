// What a product of matrices is.
#pragma once
#include "runtime/Device/host/ProductResult.h"
#include "runtime/Format/plan.pb.h"
#include <compare>
#include <cstdint>

namespace ztc {

/// What a causal mask spares a product that works on scores (queries, keys), whose query i sees keys up to i +
/// diagonal. Only a saving: whoever computes everything is right too.
enum class Causal : uint8_t {
  None,
  Scores,         ///< elements of C right of the diagonal are not wanted; they may be left as they are
  Left,           ///< A is scores, zero right of the diagonal
  LeftTransposed, ///< A is scores, zero right of the diagonal, and op(A) their transpose
};

/// C = alpha * op(A) op(B) (+ C where `add`) (+ a bias to each row), row-major: op(A) is (m, k), op(B) is (k, n), C is
/// (m, n). `lda` is the distance of rows of A as it is stored, in elements, and so on.
struct MatmulProblem {
  uint64_t m = 0, n = 0, k = 0;
  uint64_t lda = 0, ldb = 0, ldc = 0;
  bool transposeA = false, transposeB = false;
  bool add = false;
  float alpha = 1;
  Causal causal = Causal::None; ///< of a whole product: its pieces have other diagonals
  uint64_t diagonal = 0;
  plan::DataType typeA = plan::F32, typeB = plan::F32, typeC = plan::F32;
  auto operator<=>(const MatmulProblem &) const = default;
};

} // namespace ztc
