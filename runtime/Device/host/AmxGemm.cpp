// The scheme of Bf16Gemm.cpp, with tiles of 32 values of k in place of pairs.
#include "runtime/Device/host/AmxGemm.h"
#include "runtime/Core/CpuFeatures.h"
#include "runtime/Core/Sizes.h"
#include "runtime/Device/host/AmxGemmTiles.h"
#include "runtime/Device/host/Bf16GemmTiles.h"
#include "runtime/Device/host/Sgemm.h"
#include "runtime/Device/host/WholeProduct.h"
#include <algorithm>

namespace ztc {
namespace {

constexpr uint64_t kTileRows = AmxTiles::kRows, kTileColumns = AmxTiles::kColumns, kStep = AmxTiles::kStep;
static_assert(kTileColumns == Bf16Tiles::kColumns, "panels and sums have one form");
/// A panel of B, `kDepth` steps deep, fits a first cache of 48 KiB with room for rows of A that pass through it; a
/// block of B is at most so many bytes, or one panel; and rows of A that are multiplied by it, which wait in the second
/// cache, at most so many bytes.
constexpr uint64_t kDepth = 16, kBytesOfB = 1 << 20, kColumns = 1024, kBytesOfA = 256 * 1024, kRows = 512;
/// Rows of a piece where sums wait between pieces of k.
constexpr uint64_t kRowsOfPieces = 128;
/// Rows of A that do not begin with cache lines are copied where they are read this many times.
constexpr uint64_t kWorthCopying = 4;

/// Words of a panel of B, and floats of a tile of sums.
constexpr uint64_t panelOfB(uint64_t steps) {
  return (steps * kStep / 2 + 1) * kTileColumns;
}
constexpr uint64_t kTileFloats = kTileRows * kTileColumns;
constexpr uint64_t kStepBytes = kStep * sizeof(uint16_t);

} // namespace

bool hasAmxGemm() {
  static const bool has = hostSupports("amx-bf16");
  return has;
}

AmxGemmPlan::AmxGemmPlan(const MatmulProblem &problem) : Bf16Blocks(problem), steps_((problem.k + kStep - 1) / kStep) {
  depth_ = evenPiece(steps_, kDepth, 1);
  const uint64_t columns = roundUp(problem.n, kTileColumns), panel = panelOfB(steps_) * sizeof(uint32_t);
  columns_ = std::clamp(kBytesOfB / panel * kTileColumns, kTileColumns, std::min(columns, kColumns));
  columns_ = hasFewRows() ? kTileColumns : evenPiece(problem.n, columns_, kTileColumns);
  const uint64_t rows = std::clamp(kBytesOfA / (depth_ * kStepBytes) / kTileRows * kTileRows, kTileRows,
                                   steps_ > depth_ ? kRowsOfPieces : kRows);
  rows_ = std::min(roundUp(problem.m, kTileRows), rows);
}

uint64_t AmxGemmPlan::rowGrain() const {
  return kTileRows;
}

bool AmxGemmPlan::copiesA() const {
  return !problem_.transposeA && problem_.lda % kStep != 0 && problem_.n > kWorthCopying * kTileColumns;
}

bool AmxGemmPlan::hasFewRows() const {
  return problem_.m < SgemmPlan::kFewRows;
}

uint64_t AmxGemmPlan::packedBytes() const {
  return columns_ / kTileColumns * panelOfB(steps_) * sizeof(uint32_t);
}

uint64_t AmxGemmPlan::tailBytes() const {
  return problem_.k % kStep ? rows_ * kStepBytes : 0;
}

uint64_t AmxGemmPlan::scratchBytes() const {
  uint64_t bytes = packsA() ? rows_ * depth_ * kStepBytes : tailBytes();
  if (steps_ > depth_) // sums between two pieces of k
    bytes += rows_ * columns_ * sizeof(float);
  return std::max(bytes, hasFewRows() ? AmxTiles::kTileBytes : 0); // the tail of a tile of B as it lies
}

void AmxGemmPlan::pack(const Block &block, const uint16_t *b, uint64_t begin, uint64_t end, void *packed) const {
  const uint64_t pairs = (problem_.k + 1) / 2;
  for (uint64_t panel = begin; panel < end; ++panel) {
    uint32_t *to = static_cast<uint32_t *>(packed) + panel * panelOfB(steps_);
    packPanel(block, b, panel, to);
    std::fill(to + pairs * kTileColumns, to + steps_ * kStep / 2 * kTileColumns, 0);
  }
}

/// What a call of multiplyRows() works on.
struct AmxGemmPlan::Rows {
  const Block &block;
  const uint16_t *a;
  const uint32_t *packed;
  ProductResult c;
  uint64_t first, rows;
  WorkRange panels;
  std::byte *scratch;
};

void AmxGemmPlan::multiply(const Block &block, const uint16_t *a, const void *packed, ProductResult c, WorkRange rows,
                           WorkRange panels, void *scratch) const {
  if (rows.empty())
    return;
  // Tiles have as many rows as they are told: whole ones first, then the rest.
  const uint64_t rest = (rows.end - rows.begin) % kTileRows, whole = rows.end - rest;
  Rows piece{block, a, static_cast<const uint32_t *>(packed), c, 0, 0, panels, static_cast<std::byte *>(scratch)};
  if (whole > rows.begin) {
    AmxTiles::begin(kTileRows);
    const uint64_t chunk = evenPiece(whole - rows.begin, rows_, kTileRows);
    for (piece.first = rows.begin; piece.first < whole; piece.first += chunk) {
      piece.rows = std::min(chunk, whole - piece.first);
      multiplyRows(piece);
    }
  }
  if (rest) {
    AmxTiles::begin(rest);
    piece.first = whole;
    piece.rows = rest;
    multiplyRows(piece);
  }
  AmxTiles::end();
}

void AmxGemmPlan::multiplyRows(const Rows &piece) const {
  const auto &[block, a, packed, c, first, rows, range, scratch] = piece;
  const uint64_t lda = problem_.lda, ldc = problem_.ldc, tileOfA = depth_ * AmxTiles::kTileBytes;
  const bool isStored = problem_.typeC != plan::BF16 && problem_.alpha == 1 && !problem_.add;
  std::byte *const left = scratch; // packed rows of A, or the last step of each
  auto *sums = reinterpret_cast<float *>(scratch + (packsA() ? rows_ * depth_ * kStepBytes : tailBytes()));
  alignas(64) float tile[kTileFloats];
  for (uint64_t at = 0; at < steps_; at += depth_) {
    const uint64_t steps = std::min(depth_, steps_ - at), values = std::min(steps * kStep, problem_.k - at * kStep);
    const bool isLast = at + steps == steps_, hasTail = !packsA() && values % kStep != 0;
    if (problem_.transposeA)
      AmxTiles::packTransposed(a + at * kStep * lda + first, lda, values, rows, tileOfA, left);
    else if (packsA())
      AmxTiles::copyRows(a + first * lda + at * kStep, lda, values, rows, tileOfA, left);
    else if (hasTail)
      AmxTiles::copyRows(a + first * lda + problem_.k / kStep * kStep, lda, values % kStep, rows, AmxTiles::kTileBytes,
                         left);
    for (uint64_t panel = range.begin; panel < range.end; ++panel) {
      const uint64_t column = panel * kTileColumns, width = std::min(kTileColumns, block.columns - column);
      const uint32_t *right = packed + panel * panelOfB(steps_) + at * kStep / 2 * kTileColumns;
      for (uint64_t row = 0; row < rows; row += kTileRows) {
        const uint64_t height = std::min(kTileRows, rows - row);
        if (problem_.causal == Causal::Scores && block.column + column > problem_.diagonal + first + row + height - 1)
          continue;
        const WorkRange needed = neededSteps(first + row, height, at, steps, kStep);
        float *between = sums + (row * (columns_ / kTileColumns) + panel * kTileRows) * kTileColumns;
        const bool direct = isLast && isStored && (width == kTileColumns || width == kTileColumns / 2);
        const bool endsInTail = hasTail && needed.end == steps && !needed.empty();
        AmxTiles::Call call;
        call.steps = needed.end - needed.begin - (endsInTail ? 1 : 0);
        call.tail = endsInTail ? left + row * kStepBytes : nullptr;
        if (packsA()) {
          call.a = left + row / AmxTiles::kTileRows * tileOfA + needed.begin * AmxTiles::kTileBytes;
          call.strideA = kStepBytes;
          call.stepA = AmxTiles::kTileBytes;
          call.tileA = tileOfA;
        } else {
          call.a = a + (first + row) * lda + (at + needed.begin) * kStep;
          call.strideA = lda * sizeof(uint16_t);
          call.stepA = kStepBytes;
          call.tileA = AmxTiles::kTileRows * call.strideA;
        }
        call.b = right + needed.begin * kStep / 2 * kTileColumns;
        call.sums = at > 0 ? between : nullptr;
        call.to = direct   ? static_cast<float *>(c.c) + (first + row) * ldc + block.column + column
                  : isLast ? tile
                           : between;
        call.ldTo = direct ? ldc : kTileColumns;
        AmxTiles::multiply(call, height, direct ? width : kTileColumns);
        if (isLast && !direct)
          finish(tile, height, width, c, first + row, block.column + column);
      }
    }
  }
}

void AmxGemmPlan::multiplyFewRows(const uint16_t *a, const uint16_t *b, ProductResult c, void *packed,
                                  void *scratch) const {
  if (problem_.transposeB)
    multiplyTurned(a, b, c, packed, scratch);
  else
    multiplyStraight(a, b, c, packed);
  AmxTiles::end();
}

void AmxGemmPlan::multiplyTurned(const uint16_t *a, const uint16_t *b, ProductResult c, void *packed,
                                 void *scratch) const {
  // Rows of B as it lies are those of tiles' left operand, rows of A are packed as its columns: a product of two values
  // has the same bits either way round.
  MatmulProblem turned = problem_;
  turned.n = problem_.m;
  turned.transposeB = !problem_.transposeA;
  turned.ldb = problem_.lda;
  const AmxGemmPlan right(turned);
  right.pack({0, turned.n}, a, 0, 1, packed);
  alignas(64) float sums[kTileFloats] = {}, tile[kTileFloats];
  const uint64_t tail = problem_.k % kStep, whole = problem_.k / kStep;
  for (uint64_t column = 0, told = 0; column < problem_.n; column += kTileRows) {
    const uint64_t width = std::min(kTileRows, problem_.n - column);
    if (width != told)
      AmxTiles::begin(told = width);
    const uint16_t *left = b + column * problem_.ldb;
    if (tail)
      AmxTiles::copyRows(left + whole * kStep, problem_.ldb, tail, width, AmxTiles::kTileBytes, scratch);
    AmxTiles::Call call;
    call.steps = whole;
    call.a = left;
    call.strideA = problem_.ldb * sizeof(uint16_t);
    call.stepA = kStepBytes;
    call.tileA = AmxTiles::kTileRows * call.strideA;
    call.tail = tail ? scratch : nullptr;
    call.b = static_cast<const uint32_t *>(packed);
    call.sums = nullptr;
    call.to = sums;
    call.ldTo = kTileColumns;
    AmxTiles::multiply(call, width, turned.n);
    AmxTiles::turn(sums, tile);
    finish(tile, problem_.m, width, c, 0, column);
  }
}

void AmxGemmPlan::multiplyStraight(const uint16_t *a, const uint16_t *b, ProductResult c, void *packed) const {
  if (problem_.transposeA)
    AmxTiles::packTransposed(a, problem_.lda, problem_.k, problem_.m, 0, packed);
  else
    AmxTiles::copyRows(a, problem_.lda, problem_.k, problem_.m, 0, packed);
  AmxRows::begin(problem_.m);
  alignas(64) float sums[2 * kTileFloats];
  for (uint64_t column = 0; column < problem_.n; column += AmxRows::kColumns) {
    const uint64_t columns = std::min(AmxRows::kColumns, problem_.n - column);
    AmxRows::multiply(packed, b + column, problem_.ldb, problem_.k, columns, sums);
    finish(sums, problem_.m, std::min(columns, kTileColumns), c, 0, column);
    if (columns > kTileColumns)
      finish(sums + kTileFloats, problem_.m, columns - kTileColumns, c, 0, column + kTileColumns);
  }
}

void amxGemm(const AmxGemmPlan &plan, const uint16_t *a, const uint16_t *b, ProductResult c, void *scratch) {
  if (plan.hasFewRows())
    plan.multiplyFewRows(a, b, c, scratch, scratchAfterBlock(plan, scratch));
  else
    multiplyBlocks(plan, a, b, c, scratch);
}

uint64_t amxGemmScratchBytes(const AmxGemmPlan &plan) {
  return wholeScratchBytes(plan);
}

} // namespace ztc
