// The innermost part of a product of f32 matrices, by instruction set: a tile of C that stays in registers.
#pragma once
#include <array>
#include <cstdint>
#include <utility>

namespace ztc {

/// C = alpha * A B (+ C where `add`) for so few rows that packing B would cost more than the product: B is read once,
/// as it lies. The chains of SgemmTiles, and so their bits.
struct SgemmRows {
  using Kernel = void (*)(const SgemmRows &);
  static constexpr uint64_t kMostAvx2 = 4, kMostAvx512 = 4; ///< rows

  uint64_t rows, columns, depth;
  const float *a;
  uint64_t lda, stepA; ///< from row to row, and from one value of k to the next
  const float *b;
  uint64_t ldb;
  bool transposeB;
  float *c;
  uint64_t ldc;
  bool add;
  float alpha;
};

/// The register tiles of one instruction set. All sets compute the same chain of fused multiply-adds per element of C,
/// so their bits are equal; they differ in how many elements they compute at once.
struct SgemmTiles {
  /// C = alpha * A B (+ C where `add`) for a tile of C with rows `ldc` apart: A is (rows, depth), in a packed panel or
  /// `lda` apart where it lies; `b` is a packed panel, (depth, columns), aligned to a cache line.
  using Kernel = void (*)(uint64_t depth, const float *a, uint64_t lda, const float *b, float *c, uint64_t ldc,
                          bool add, float alpha);
  static constexpr int kMostRows = 12, kMostColumns = 32;
  using Kernels = std::array<Kernel, kMostRows>; ///< by rows - 1

  uint64_t rows, columns; ///< of a whole tile, and so of panels
  Kernels whole[2];       ///< by packed A or not
  Kernels narrow[2];      ///< the left half of the columns alone
  uint64_t fewRows;       ///< up to which `multiplyRows` takes
  SgemmRows::Kernel multiplyRows;

  /// From `Tile::kKernel<rows, packed, vectors>`; a whole tile has two vectors of columns.
  template <class Tile, int Rows, int Columns>
  static constexpr SgemmTiles make(uint64_t fewRows, SgemmRows::Kernel multiplyRows) {
    constexpr std::make_integer_sequence<int, Rows> rows;
    return {Rows,
            Columns,
            {kernels<Tile, false, 2>(rows), kernels<Tile, true, 2>(rows)},
            {kernels<Tile, false, 1>(rows), kernels<Tile, true, 1>(rows)},
            fewRows,
            multiplyRows};
  }

private:
  template <class Tile, bool Packed, int Vectors, int... Rows>
  static constexpr Kernels kernels(std::integer_sequence<int, Rows...>) {
    return {Tile::template kKernel<Rows + 1, Packed, Vectors>...};
  }
};

void sgemmRowsAvx2(const SgemmRows &call);
void sgemmRowsAvx512(const SgemmRows &call);
/// 6 x 16. Needs x86-64-v3 (AVX2 and FMA).
const SgemmTiles &sgemmTilesAvx2();
/// 12 x 32. Needs x86-64-v4 (AVX-512).
const SgemmTiles &sgemmTilesAvx512();

} // namespace ztc
