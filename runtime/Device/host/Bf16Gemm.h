// Products of bf16 matrices by kernels of our own, where the processor has AVX512-BF16.
#pragma once
#include "runtime/Device/host/Bf16Blocks.h"
#include <cstddef>
#include <cstdint>

namespace ztc {

/// Whether this processor multiplies bf16 and this process is not forbidden to let it (hostSupports).
bool hasBf16Gemm();

/// How C = alpha * op(A) op(B) (+ C) (+ bias) is computed, A and B bf16, C bf16 or f32: B is packed block after block,
/// each as deep as k, then multiplied by rows of A. Panels can be packed, and then rows multiplied, by several threads
/// at once.
///
/// An element of C is one chain over k, in pairs: `sum = fma(a[2i+1], b[2i+1], sum)`, then the same with 2i, both
/// rounded to nearest even; denormal operands and sums count as zero (VDPBF16PS). The sum times alpha, plus C, plus the
/// bias, is rounded once more where C is bf16, denormals to zero. So its bits depend on k alone: not on m, n, the
/// blocks or who computes it.
class Bf16GemmPlan : public Bf16Blocks {
public:
  explicit Bf16GemmPlan(const MatmulProblem &problem);

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

private:
  void multiplyRows(const Block &block, const uint16_t *a, const uint32_t *packed, ProductResult c, uint64_t first,
                    uint64_t rows, WorkRange panels, std::byte *scratch) const;
  /// Whether rows of A are copied before they are multiplied.
  bool copiesA() const;

  uint64_t pairs_; ///< of k
  uint64_t depth_; ///< pairs of a piece of k, which changes no bit: a piece goes on with the sums of the one before
  uint64_t rows_;  ///< that are multiplied by a whole block, then the next ones
};

/// The whole product in one thread; bits are those of pack() and multiply() of any blocks.
void bf16Gemm(const Bf16GemmPlan &plan, const uint16_t *a, const uint16_t *b, ProductResult c, void *scratch);
/// Bytes that bf16Gemm() wants as scratch. Any alignment of 64 does.
uint64_t bf16GemmScratchBytes(const Bf16GemmPlan &plan);

} // namespace ztc
