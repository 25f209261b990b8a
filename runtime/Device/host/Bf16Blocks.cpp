#include "runtime/Device/host/Bf16Blocks.h"
#include "runtime/Device/host/Bf16GemmTiles.h"
#include <algorithm>

namespace ztc {

Bf16Blocks::Block Bf16Blocks::block(size_t index) const {
  const uint64_t column = index * columns_;
  return {column, std::min(columns_, problem_.n - column)};
}

uint64_t Bf16Blocks::panels(const Block &block) const {
  return (block.columns + Bf16Tiles::kColumns - 1) / Bf16Tiles::kColumns;
}

void Bf16Blocks::packPanel(const Block &block, const uint16_t *b, uint64_t panel, uint32_t *to) const {
  const uint64_t column = block.column + panel * Bf16Tiles::kColumns;
  const uint64_t columns = std::min(Bf16Tiles::kColumns, block.column + block.columns - column);
  if (problem_.transposeB)
    Bf16Tiles::packColumns(b + column * problem_.ldb, problem_.ldb, problem_.k, columns, to);
  else
    Bf16Tiles::packRows(b + column, problem_.ldb, problem_.k, columns, to);
}

WorkRange Bf16Blocks::neededSteps(uint64_t row, uint64_t rows, uint64_t begin, uint64_t steps, uint64_t values) const {
  uint64_t from = begin, to = begin + steps;
  if (problem_.causal == Causal::Left) // zero from here on for the last row
    to = std::clamp((problem_.diagonal + row + rows + values - 1) / values, begin, begin + steps);
  if (problem_.causal == Causal::LeftTransposed && row > problem_.diagonal) // zero up to here for the first row
    from = std::clamp((row - problem_.diagonal) / values, begin, begin + steps);
  return {from - begin, to - begin};
}

void Bf16Blocks::finish(const float *sums, uint64_t rows, uint64_t columns, ProductResult c, uint64_t row,
                        uint64_t column) const {
  const uint64_t offset = row * problem_.ldc + column;
  if (problem_.typeC == plan::BF16)
    Bf16Tiles::narrow(sums, rows, columns, problem_.alpha, problem_.add, c.at(offset, column, sizeof(uint16_t)),
                      problem_.ldc);
  else
    Bf16Tiles::store(sums, rows, columns, problem_.alpha, problem_.add, static_cast<float *>(c.c) + offset,
                     problem_.ldc);
}

} // namespace ztc
