// The scheme of Sgemm.cpp, with pairs of bf16 in place of floats. Blocks of B are as deep as k, so that sums leave the
// registers for nothing but a piece of a worker's scratch: C, where it is bf16, is rounded once and needs no f32 beside
// it.
#include "runtime/Device/host/Bf16Gemm.h"
#include "runtime/Core/CpuFeatures.h"
#include "runtime/Core/Sizes.h"
#include "runtime/Device/host/Bf16GemmTiles.h"
#include "runtime/Device/host/Sgemm.h"
#include "runtime/Device/host/WholeProduct.h"
#include <algorithm>
#include <cstring>

namespace ztc {
namespace {

constexpr uint64_t kTileRows = Bf16Tiles::kRows, kTileColumns = Bf16Tiles::kColumns;
/// A panel of B, `kDepth` pairs deep, and the rows of A beside it fit half of a second cache of 512 KiB; a block of B
/// is at most so many pairs, or one panel.
constexpr uint64_t kDepth = 512, kRows = 96, kBlockOfB = 768 * 1024, kColumns = 1536;
/// Words between the packed pieces of rows, so that they do not begin in one set of the first cache.
constexpr uint64_t kPadding = 16;
/// Rows of A that lie a multiple of this apart share one or two sets of the first cache, which holds eight: they are
/// copied.
constexpr uint64_t kAliasBytes = 2048;

/// Words of a panel of B, and floats of a tile of sums.
constexpr uint64_t panelOfB(uint64_t pairs) {
  return (pairs + 1) * kTileColumns;
}
constexpr uint64_t kTileFloats = kTileRows * kTileColumns;

} // namespace

bool hasBf16Gemm() {
  static const bool has = hostSupports("avx512-bf16");
  return has;
}

Bf16GemmPlan::Bf16GemmPlan(const MatmulProblem &problem) : Bf16Blocks(problem), pairs_((problem.k + 1) / 2) {
  depth_ = evenPiece(pairs_, kDepth, 16);
  const uint64_t columns = roundUp(problem.n, kTileColumns);
  columns_ = std::clamp(kBlockOfB / pairs_ / kTileColumns * kTileColumns, kTileColumns, std::min(columns, kColumns));
  columns_ = problem.m < SgemmPlan::kFewRows ? kTileColumns : evenPiece(problem.n, columns_, kTileColumns);
  rows_ = std::min(roundUp(problem.m, kTileRows), kRows);
}

uint64_t Bf16GemmPlan::rowGrain() const {
  return kTileRows;
}

bool Bf16GemmPlan::copiesA() const {
  return !problem_.transposeA && problem_.lda * sizeof(uint16_t) % kAliasBytes == 0;
}

uint64_t Bf16GemmPlan::packedBytes() const {
  return columns_ / kTileColumns * panelOfB(pairs_) * sizeof(uint32_t);
}

uint64_t Bf16GemmPlan::scratchBytes() const {
  const uint64_t tiles = rows_ / kTileRows;
  uint64_t bytes = problem_.transposeA ? tiles * (depth_ * kTileRows + kPadding) * sizeof(uint32_t)
                   : copiesA()         ? rows_ * (depth_ + kPadding) * sizeof(uint32_t)
                                       : 0;
  if (pairs_ > depth_) // sums between two pieces of k
    bytes += tiles * (columns_ / kTileColumns) * kTileFloats * sizeof(float);
  return roundUp(bytes, 64);
}

void Bf16GemmPlan::pack(const Block &block, const uint16_t *b, uint64_t begin, uint64_t end, void *packed) const {
  for (uint64_t panel = begin; panel < end; ++panel)
    packPanel(block, b, panel, static_cast<uint32_t *>(packed) + panel * panelOfB(pairs_));
}

void Bf16GemmPlan::multiply(const Block &block, const uint16_t *a, const void *packed, ProductResult c, WorkRange rows,
                            WorkRange panels, void *scratch) const {
  if (rows.empty())
    return;
  const uint64_t chunk = evenPiece(rows.end - rows.begin, rows_, kTileRows);
  for (uint64_t row = rows.begin; row < rows.end; row += chunk)
    multiplyRows(block, a, static_cast<const uint32_t *>(packed), c, row, std::min(chunk, rows.end - row), panels,
                 static_cast<std::byte *>(scratch));
}

void Bf16GemmPlan::multiplyRows(const Block &block, const uint16_t *a, const uint32_t *packed, ProductResult c,
                                uint64_t first, uint64_t rows, WorkRange range, std::byte *scratch) const {
  const bool packsA = problem_.transposeA, copies = copiesA(), isNarrow = problem_.typeC == plan::BF16;
  const uint64_t lda = problem_.lda, ldc = problem_.ldc, panelOfA = depth_ * kTileRows + kPadding;
  const uint64_t ldCopy = 2 * (depth_ + kPadding);
  auto *packedA = reinterpret_cast<uint32_t *>(scratch);
  auto *sums = reinterpret_cast<float *>(scratch);
  auto *copy = reinterpret_cast<uint16_t *>(scratch);
  if (packsA)
    sums += rows_ / kTileRows * panelOfA;
  else if (copies)
    sums += rows_ * ldCopy / 2;
  alignas(64) float tile[kTileFloats];
  for (uint64_t at = 0; at < pairs_; at += depth_) {
    const uint64_t pairs = std::min(depth_, pairs_ - at), values = std::min(2 * pairs, problem_.k - 2 * at);
    const bool isLast = at + pairs == pairs_;
    if (packsA)
      Bf16Tiles::packTransposed(a + 2 * at * lda + first, lda, values, rows, panelOfA, packedA);
    for (uint64_t row = 0; copies && row < rows; ++row)
      std::memcpy(copy + row * ldCopy, a + (first + row) * lda + 2 * at, values * sizeof(uint16_t));
    for (uint64_t panel = range.begin; panel < range.end; ++panel) {
      const uint64_t column = panel * kTileColumns, width = std::min(kTileColumns, block.columns - column);
      const uint32_t *right = packed + panel * panelOfB(pairs_) + at * kTileColumns;
      for (uint64_t row = 0; row < rows; row += kTileRows) {
        const uint64_t height = std::min(kTileRows, rows - row);
        if (problem_.causal == Causal::Scores && block.column + column > problem_.diagonal + first + row + height - 1)
          continue;
        const WorkRange needed = neededSteps(first + row, height, at, pairs, 2);
        float *between = sums + (row / kTileRows * (columns_ / kTileColumns) + panel) * kTileFloats;
        const bool direct = isLast && !isNarrow && (width == kTileColumns || width == kTileColumns / 2);
        Bf16Tiles::Call call;
        call.pairs = needed.end - needed.begin;
        call.isOdd = 2 * needed.end > values;
        call.a =
            packsA ? reinterpret_cast<const uint16_t *>(packedA + row / kTileRows * panelOfA + needed.begin * kTileRows)
            : copies ? copy + row * ldCopy + 2 * needed.begin
                     : a + (first + row) * lda + 2 * (at + needed.begin);
        call.lda = copies ? ldCopy : lda;
        call.b = right + needed.begin * kTileColumns;
        call.sums = at > 0 ? between : nullptr;
        call.to = direct   ? static_cast<float *>(c.c) + (first + row) * ldc + block.column + column
                  : isLast ? tile
                           : between;
        call.ldTo = direct ? ldc : kTileColumns;
        call.alpha = direct ? problem_.alpha : 1;
        call.add = direct && problem_.add;
        Bf16Tiles::multiply(call, height, packsA, width);
        if (isLast && !direct)
          finish(tile, height, width, c, first + row, block.column + column);
      }
    }
  }
}

void bf16Gemm(const Bf16GemmPlan &plan, const uint16_t *a, const uint16_t *b, ProductResult c, void *scratch) {
  if (const MatmulProblem &problem = plan.problem(); problem.m <= Bf16Rows::kMost)
    return multiplyBf16Rows({.rows = problem.m,
                             .columns = problem.n,
                             .depth = problem.k,
                             .a = a,
                             .lda = problem.transposeA ? 1 : problem.lda,
                             .stepA = problem.transposeA ? problem.lda : 1,
                             .b = b,
                             .ldb = problem.ldb,
                             .transposeB = problem.transposeB,
                             .c = c,
                             .ldc = problem.ldc,
                             .isNarrow = problem.typeC == plan::BF16,
                             .add = problem.add,
                             .alpha = problem.alpha});
  multiplyBlocks(plan, a, b, c, scratch);
}

uint64_t bf16GemmScratchBytes(const Bf16GemmPlan &plan) {
  return wholeScratchBytes(plan);
}

} // namespace ztc
