// The innermost part of a product of bf16 matrices by AVX512-BF16: a tile of sums that stays in registers, and what
// brings operands into its form. Two values that follow each other along k are a pair: one word of 32 bits.
#pragma once
#include "runtime/Device/host/ProductResult.h"
#include <cstdint>

namespace ztc {

struct Bf16Tiles {
  static constexpr uint64_t kRows = 12, kColumns = 32;

  /// One piece of a tile's chain.
  struct Call {
    uint64_t pairs;    ///< of k
    bool isOdd;        ///< the last pair of A, where it lies, has one value: the other one counts as zero
    const uint16_t *a; ///< a packed panel, (pairs, kRows) of words; or rows `lda` values apart where they lie
    uint64_t lda;
    const uint32_t *b; ///< a packed panel, (pairs, kColumns), aligned to a cache line
    const float *sums; ///< what the chain goes on with, kColumns apart; null: zeros
    float *to;         ///< rows `ldTo` apart
    uint64_t ldTo;
    float alpha; ///< sums are multiplied by it,
    bool add;    ///< and added to what is in `to`
  };
  /// By rows, packed A or not, one or two vectors of columns.
  static void multiply(const Call &call, uint64_t rows, bool isPacked, uint64_t columns);

  /// `columns` values of rows of a tile of sums, times alpha, (added,) with what `to` adds and makes of them, rounded
  /// into a matrix of bf16.
  static void narrow(const float *sums, uint64_t rows, uint64_t columns, float alpha, bool add, ProductResult to,
                     uint64_t ldTo);
  /// The same, but for what `to` adds and makes, into a matrix of f32.
  static void store(const float *sums, uint64_t rows, uint64_t columns, float alpha, bool add, float *to,
                    uint64_t ldTo);

  /// A panel of B from rows of it, `ld` apart: `values` of k, `columns` of them; what is missing is zero.
  static void packRows(const uint16_t *b, uint64_t ld, uint64_t values, uint64_t columns, uint32_t *to);
  /// The same from B's transpose, (columns, values).
  static void packColumns(const uint16_t *b, uint64_t ld, uint64_t values, uint64_t columns, uint32_t *to);
  /// Panels of A from its transpose, (values, rows); each is `panel` words after the one before.
  static void packTransposed(const uint16_t *a, uint64_t ld, uint64_t values, uint64_t rows, uint64_t panel,
                             uint32_t *to);
};

/// C = alpha * A B (+ C where `add`) (+ bias) for so few rows that packing B would cost more than the product.
struct Bf16Rows {
  static constexpr uint64_t kMost = 4; ///< rows

  uint64_t rows, columns, depth;
  const uint16_t *a;
  uint64_t lda, stepA; ///< from row to row, and from one value of k to the next
  const uint16_t *b;
  uint64_t ldb;
  bool transposeB;
  ProductResult c; ///< of bf16 where `isNarrow`; else of f32, with nothing that is added or made
  uint64_t ldc;
  bool isNarrow, add;
  float alpha;
};
void multiplyBf16Rows(const Bf16Rows &call);

} // namespace ztc
