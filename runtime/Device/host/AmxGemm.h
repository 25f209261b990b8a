// Products of bf16 matrices by kernels of our own, where the processor has AMX.
#pragma once
#include "runtime/Device/host/Bf16Blocks.h"
#include <cstddef>
#include <cstdint>

namespace ztc {

/// Whether this processor multiplies tiles of bf16, the operating system lets this process use them, and it is not
/// forbidden to (hostSupports).
bool hasAmxGemm();

/// How C = alpha * op(A) op(B) (+ C) (+ bias) is computed, A and B bf16, C bf16 or f32, as Bf16GemmPlan does it.
///
/// An element of C is one chain over k, in steps of 32 values from 0 on, zeros after the last (TDPBF16PS). In a step
/// two sums begin with zero: `even = fma(a[2i], b[2i], even)` and `odd = fma(a[2i+1], b[2i+1], odd)` for i from 0 to
/// 15; then the chain goes on with `sum + (even + odd)`. All is rounded to nearest even; denormal operands and results
/// count as zero. The sum times alpha, plus C, plus the bias, is rounded once more where C is bf16, denormals to zero.
/// So its bits depend on k alone: not on m, n, the blocks or who computes it.
class AmxGemmPlan : public Bf16Blocks {
public:
  explicit AmxGemmPlan(const MatmulProblem &problem);

  /// Bytes of a packed block, and what a thread that multiplies wants as scratch. Any alignment of 64 does.
  uint64_t packedBytes() const;
  uint64_t scratchBytes() const;

  /// Packs panels [begin, end) of a block.
  void pack(const Block &block, const uint16_t *b, uint64_t begin, uint64_t end, void *packed) const;
  /// Rows of op(A) by panels of the packed block. `c` is of the problem's type.
  void multiply(const Block &block, const uint16_t *a, const void *packed, ProductResult c, WorkRange rows,
                WorkRange panels, void *scratch) const;
  /// Pieces of rows are best multiples of this.
  uint64_t rowGrain() const;

  /// Whether rows are so few that B is read once, as it lies (multiplyFewRows).
  bool hasFewRows() const;
  /// The whole product where hasFewRows(). `packed` and `scratch` as above.
  void multiplyFewRows(const uint16_t *a, const uint16_t *b, ProductResult c, void *packed, void *scratch) const;

private:
  void multiplyTurned(const uint16_t *a, const uint16_t *b, ProductResult c, void *packed, void *scratch) const;
  void multiplyStraight(const uint16_t *a, const uint16_t *b, ProductResult c, void *packed) const;
  struct Rows;
  void multiplyRows(const Rows &rows) const;
  /// Whether rows of A are copied before they are multiplied.
  bool copiesA() const;
  bool packsA() const { return problem_.transposeA || copiesA(); }
  uint64_t tailBytes() const;

  uint64_t steps_; ///< of k
  uint64_t depth_; ///< steps of a piece of k, which changes no bit: a piece goes on with the sums of the one before
  uint64_t rows_;  ///< that are multiplied by a whole block, then the next ones
};

/// The whole product in one thread; bits are those of pack() and multiply() of any blocks.
void amxGemm(const AmxGemmPlan &plan, const uint16_t *a, const uint16_t *b, ProductResult c, void *scratch);
/// Bytes that amxGemm() wants as scratch. Any alignment of 64 does.
uint64_t amxGemmScratchBytes(const AmxGemmPlan &plan);

} // namespace ztc
