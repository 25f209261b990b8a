// The innermost part of a product of bf16 matrices by AMX: sums that stay in the processor's tile registers, and what
// brings operands into their form. A step is 32 values of k: what one instruction takes.
#pragma once
#include <cstdint>

namespace ztc {

struct AmxTiles {
  /// Rows and columns of C that are computed at once, in two by two tiles; values of k in a step.
  static constexpr uint64_t kRows = 32, kColumns = 32, kStep = 32;
  /// Rows of a tile, and bytes of one that has them all.
  static constexpr uint64_t kTileRows = 16, kTileBytes = 1024;

  /// One piece of the chains of up to kRows x kColumns elements.
  struct Call {
    uint64_t steps;                 ///< of k, without the one in `tail`
    const void *a;                  ///< rows `strideA` bytes apart; where a row goes on after a step, `stepA` bytes
    uint64_t strideA, stepA, tileA; ///< and after kTileRows rows, `tileA` bytes
    const void *tail;               ///< one more step of A after the others, in whole tiles; null: none
    const uint32_t *b;              ///< a packed panel, (pairs, kColumns) of words
    const float *sums;              ///< what the chains go on with, rows kColumns apart; null: zeros
    float *to;                      ///< rows `ldTo` apart; columns are written in whole tiles
    uint64_t ldTo;
  };

  /// Tile registers of this thread for so many rows of C, until end(): in between what the system saves of the thread
  /// is large.
  static void begin(uint64_t rows);
  static void end();
  /// As many rows as begin() was told.
  static void multiply(const Call &call, uint64_t rows, uint64_t columns);

  /// Tiles of A from rows of it, `ld` values apart: (tiles of rows, steps, kTileRows, kStep), each tile of rows
  /// `tile` bytes after the one before. What is missing is zero.
  static void copyRows(const uint16_t *a, uint64_t ld, uint64_t values, uint64_t rows, uint64_t tile, void *to);
  /// The same from A's transpose, (values, rows).
  static void packTransposed(const uint16_t *a, uint64_t ld, uint64_t values, uint64_t rows, uint64_t tile, void *to);

  /// A tile of sums (kRows, kColumns) the other way round.
  static void turn(const float *sums, float *to);
};

/// Few rows of A by rows of B as they lie: B is read once, some of its columns at a time.
struct AmxRows {
  static constexpr uint64_t kColumns = 64;

  /// Tile registers for `rows`, at most a tile's, until AmxTiles::end().
  static void begin(uint64_t rows);
  /// Sums of up to kColumns `columns`, rows AmxTiles::kColumns apart, in two tiles (AmxTiles::kRows, kColumns). `a` is
  /// as copyRows() makes it.
  static void multiply(const void *a, const uint16_t *b, uint64_t ldb, uint64_t values, uint64_t columns, float *sums);
};

} // namespace ztc
