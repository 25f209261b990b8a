#include "runtime/Format/QuantizedMatrix.h"
#include "runtime/Core/FloatTypes.h"
#include "runtime/Core/Fp8.h"
#include "runtime/Format/QuantizedWeight.h"
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

namespace ztc {
namespace {

template <typename Number> Number numberAt(std::span<const std::byte> data, uint64_t index) {
  Number number;
  std::memcpy(&number, data.data() + index * sizeof number, sizeof number);
  return number;
}

/// What codes of 8 bits stand for.
using ByteMap = std::array<float, 256>;

ByteMap fp8Map(Fp8Format format) {
  ByteMap map;
  for (size_t code = 0; code < map.size(); ++code)
    map[code] = fromFp8(uint8_t(code), format);
  return map;
}

/// Where AWQ has the row of each place in a word of 8 rows.
constexpr std::array<uint32_t, 8> kAwqPlace = {0, 4, 1, 5, 2, 6, 3, 7};

/// An integer of at most 8 bits that begins at a bit of a row of bytes.
uint32_t integerAt(const std::byte *row, uint64_t bit, uint32_t bits) {
  uint32_t window = uint32_t(row[bit / 8]);
  if (bit % 8 + bits > 8)
    window |= uint32_t(row[bit / 8 + 1]) << 8;
  return window >> (bit % 8) & ((1u << bits) - 1u);
}

/// The same of words that lie `stride` words apart.
uint32_t integerAt(std::span<const std::byte> words, uint64_t first, uint64_t stride, uint64_t bit, uint32_t bits,
                   uint32_t step = 0) {
  const auto word = [&](uint64_t i) {
    return uint64_t(uint32_t(numberAt<uint32_t>(words, first + i * stride) + step));
  };
  uint64_t window = word(bit / 32);
  if (bit % 32 + bits > 32)
    window |= word(bit / 32 + 1) << 32;
  return uint32_t(window >> (bit % 32)) & ((1u << bits) - 1u);
}

/// A part of one matrix, as it is stored.
struct Tile {
  uint64_t matrix, row, rowEnd, column, columnEnd;
};

class TileReader {
public:
  explicit TileReader(const QuantizedMatrix &matrix)
      : m_(matrix), groups_(matrix.groups()), scales_(groups_), zeros_(groups_) {
    if (m_.code == QuantizedMatrix::Code::E4m3 || m_.code == QuantizedMatrix::Code::E5m2)
      map_ = fp8Map(m_.code == QuantizedMatrix::Code::E4m3 ? Fp8Format::E4m3 : Fp8Format::E5m2);
  }

  /// Element (row, column) goes to out[(row - tile.row) * rowStride + (column - tile.column) * columnStride].
  void read(const Tile &tile, float *out, uint64_t rowStride, uint64_t columnStride) {
    for (uint64_t row = tile.row; row < tile.rowEnd; ++row) {
      findGroups(tile, row);
      readRow(tile, row, out + (row - tile.row) * rowStride, columnStride);
    }
  }

private:
  uint64_t scaleAt(uint64_t matrix, uint64_t row, uint64_t group) const {
    return m_.hasTransposedScales ? group * m_.rows + row
                                  : (matrix * rowsOfScales() + row / m_.blockRows) * groups_ + group;
  }
  uint64_t rowsOfScales() const { return (m_.rows + m_.blockRows - 1) / m_.blockRows; }

  float zeroAt(uint64_t matrix, uint64_t row, uint64_t group) const {
    if (m_.zeros.kind != NumberTable::Absent)
      return m_.zeros.at(scaleAt(matrix, row, group));
    if (m_.packedZeros.empty())
      return m_.zero;
    if (m_.zeroRowBits) {
      const uint64_t line = matrix * rowsOfScales() + row / m_.blockRows;
      return number(integerAt(m_.packedZeros.data(), line * m_.zeroRowBits + group * m_.bits, m_.bits));
    }
    const uint64_t words = (m_.rows * m_.bits + 31) / 32;
    if (!m_.hasTransposedScales) // compressed-tensors: along the rows
      return float(integerAt(m_.packedZeros, matrix * words * groups_ + group, groups_, row * m_.bits, m_.bits));
    if (m_.order == QuantizedMatrix::Order::AwqRows)
      return float(awqAt(m_.packedZeros, group * words, row));
    if (m_.bits == 3)
      return float((integerAt(m_.packedZeros, group * words, 1, row * 3, 3) + m_.zeroStep) & 7u);
    return float(integerAt(m_.packedZeros, group * words, 1, row * m_.bits, m_.bits, m_.zeroStep));
  }

  /// Of an integer of `bits` bits.
  float number(uint32_t code) const {
    const uint32_t sign = m_.isSigned ? 1u << (m_.bits - 1) : 0;
    return float(int32_t((code ^ sign) - sign));
  }

  static uint32_t awqAt(std::span<const std::byte> words, uint64_t first, uint64_t row) {
    return numberAt<uint32_t>(words, first + row / 8) >> (4 * kAwqPlace[row % 8]) & 15u;
  }

  /// Scales and zeros of the groups that a tile's columns are in.
  void findGroups(const Tile &tile, uint64_t row) {
    const bool isOrdered = m_.groupOfColumn.empty();
    const uint64_t begin = isOrdered ? tile.column / m_.blockColumns : 0;
    const uint64_t end = isOrdered ? (tile.columnEnd - 1) / m_.blockColumns + 1 : groups_;
    for (uint64_t group = begin; group < end; ++group) {
      scales_[group] = m_.scales.at(scaleAt(tile.matrix, row, group)) * m_.scaleFactor / m_.scaleDivisor;
      zeros_[group] = zeroAt(tile.matrix, row, group);
    }
  }

  /// `codeAt(column)` gives the number that a code stands for.
  template <typename CodeAt> void scale(const Tile &tile, float *out, uint64_t stride, const CodeAt &codeAt) const {
    if (!m_.groupOfColumn.empty()) {
      for (uint64_t column = tile.column; column < tile.columnEnd; ++column) {
        const uint64_t group = numberAt<uint32_t>(m_.groupOfColumn, column);
        out[(column - tile.column) * stride] = (codeAt(column) - zeros_[group]) * scales_[group];
      }
      return;
    }
    for (uint64_t column = tile.column; column < tile.columnEnd;) {
      const uint64_t group = column / m_.blockColumns, end = std::min(tile.columnEnd, (group + 1) * m_.blockColumns);
      const float scale = scales_[group], zero = zeros_[group];
      for (; column < end; ++column)
        out[(column - tile.column) * stride] = (codeAt(column) - zero) * scale;
    }
  }

  void readRow(const Tile &tile, uint64_t row, float *out, uint64_t stride) const {
    const std::byte *bytes = m_.data.data() + (tile.matrix * m_.rows + row) * m_.rowBytes;
    switch (m_.order) {
    case QuantizedMatrix::Order::Columns:
      return scale(tile, out, stride,
                   [&](uint64_t column) { return float(integerAt(m_.data, row, m_.rows, column * m_.bits, m_.bits)); });
    case QuantizedMatrix::Order::AwqRows:
      return scale(tile, out, stride,
                   [&](uint64_t column) { return float(awqAt(m_.data, column * (m_.rows / 8), row)); });
    case QuantizedMatrix::Order::Rows:
      break;
    }
    switch (m_.code) {
    case QuantizedMatrix::Code::E4m3:
    case QuantizedMatrix::Code::E5m2:
      return scale(tile, out, stride, [&](uint64_t column) { return map_[uint8_t(bytes[column])]; });
    case QuantizedMatrix::Code::I8:
      return scale(tile, out, stride, [&](uint64_t column) { return float(int8_t(bytes[column])); });
    case QuantizedMatrix::Code::E2m1:
      return scale(tile, out, stride,
                   [&](uint64_t column) { return e2m1_[uint32_t(bytes[column / 2]) >> (column % 2 * 4) & 15u]; });
    case QuantizedMatrix::Code::Integer:
      return scale(tile, out, stride,
                   [&](uint64_t column) { return number(integerAt(bytes, column * m_.bits, m_.bits)); });
    }
  }

  const QuantizedMatrix &m_;
  uint64_t groups_;
  std::vector<float> scales_, zeros_; ///< of a row, by group
  ByteMap map_{};
  const std::span<const float> e2m1_ = e2m1Map();
};

} // namespace

static constexpr uint64_t bytesOf(NumberTable::Kind kind) {
  return kind == NumberTable::F32 ? 4 : kind == NumberTable::F16 || kind == NumberTable::BF16 ? 2 : 1;
}

uint64_t NumberTable::count() const {
  return kind == Absent ? 0 : data.size() / bytesOf(kind);
}

float NumberTable::at(uint64_t index) const {
  switch (kind) {
  case F32:
    return numberAt<float>(data, index);
  case F16:
    return fromF16(numberAt<uint16_t>(data, index));
  case BF16:
    return fromBf16(numberAt<uint16_t>(data, index));
  case E4m3:
    return fromFp8(uint8_t(data[index]), Fp8Format::E4m3);
  case E8m0: { // 255 is NaN
    const int exponent = int(data[index]);
    return exponent == 255 ? std::nanf("") : std::ldexp(1.0f, exponent - 127);
  }
  case I8:
    return float(int8_t(data[index]));
  case Absent:
    break;
  }
  return 0;
}

void QuantizedMatrix::read(uint64_t begin, uint64_t count, float *out) const {
  // Stored rows that share words or cache lines are read together; of a transposed matrix, columns that share a scale.
  constexpr uint64_t kStrip = 32;
  TileReader reader(*this);
  const uint64_t width = isTransposed ? rows : columns, height = isTransposed ? columns : rows;
  for (uint64_t at = begin, end = begin + count; at < end;) {
    const uint64_t line = at / width, matrix = line / height, row = line % height, place = at % width;
    const auto tileOf = [&](uint64_t lines, uint64_t from, uint64_t to) {
      return isTransposed ? Tile{matrix, from, to, row, row + lines} : Tile{matrix, row, row + lines, from, to};
    };
    const uint64_t whole = place ? 0 : std::min({(end - at) / width, height - row, kStrip - row % kStrip});
    const uint64_t lines = std::max<uint64_t>(whole, 1), to = whole ? width : std::min(width, place + (end - at));
    reader.read(tileOf(lines, place, to), out, isTransposed ? 1 : width, isTransposed ? width : 1);
    const uint64_t done = whole ? whole * width : to - place;
    at += done;
    out += done;
  }
}

} // namespace ztc
