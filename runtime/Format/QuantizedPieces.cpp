#include "runtime/Format/QuantizedPieces.h"
#include "runtime/Format/PlanValidator.h"
#include <fmt/format.h>
#include <utility>

namespace ztc {

using Codes = plan::WeightSource::Codes;

static NumberTable::Kind kindOf(plan::DataType type) {
  return type == plan::F32    ? NumberTable::F32
         : type == plan::F16  ? NumberTable::F16
         : type == plan::BF16 ? NumberTable::BF16
                              : NumberTable::Absent;
}

static uint64_t blocksOf(uint64_t size, uint64_t block) {
  return (size - 1) / block + 1;
}

Status checkCodes(const Codes &codes, std::span<const int64_t> shape, uint64_t codeBytes) {
  // No size below overflows: each is at most this squared, times the bits of a code.
  constexpr uint64_t kMost = uint64_t(1) << 30;
  const auto isSize = [](uint64_t size) { return size > 0 && size <= kMost; };
  if (!isSize(codes.rows()) || !isSize(codes.columns()) || !isSize(codes.row_bytes()) || !isSize(codes.block_rows()) ||
      !isSize(codes.block_columns()))
    return dataLoss("sizes of its codes are 0 or too large");
  const bool isInteger = codes.kind() == Codes::INTEGER;
  if (!Codes::Kind_IsValid(codes.kind()) || codes.bits() < 1 || codes.bits() > 8 || (!isInteger && codes.bits() != 8))
    return dataLoss(fmt::format("it has codes of {} bits", codes.bits()));
  const uint64_t height = codes.transposed() ? codes.columns() : codes.rows();
  const uint64_t width = codes.transposed() ? codes.rows() : codes.columns();
  if (shape.size() != 2 || uint64_t(shape[0]) != height || uint64_t(shape[1]) != width)
    return dataLoss(fmt::format("its codes are of a matrix [{}, {}]", height, width));
  if (codes.columns() * codes.bits() > codes.row_bytes() * 8 || codes.row_bytes() * codes.rows() != codeBytes)
    return dataLoss(fmt::format("{} bytes of codes are not {} rows of {} codes of {} bits in {} bytes", codeBytes,
                                codes.rows(), codes.columns(), codes.bits(), codes.row_bytes()));
  const uint64_t lines = blocksOf(codes.rows(), codes.block_rows());
  const uint64_t groups = blocksOf(codes.columns(), codes.block_columns());
  const auto areNumbers = [&](const plan::WeightSource::Piece &piece) {
    return kindOf(piece.type()) != NumberTable::Absent &&
           piece.length() == lines * groups * dataTypeBytes(piece.type());
  };
  if (!areNumbers(codes.scales()))
    return dataLoss(fmt::format("it has {} bytes of scales ({}) for {} blocks", codes.scales().length(),
                                dataTypeName(codes.scales().type()), lines * groups));
  if (!codes.has_zeros())
    return Status::ok();
  const bool areFull = codes.zeros().type() == plan::U8 && isInteger && isSize(codes.zero_row_bits()) &&
                       codes.zero_row_bits() >= groups * codes.bits() &&
                       codes.zeros().length() == (lines * codes.zero_row_bits() + 7) / 8;
  if (!areFull && !areNumbers(codes.zeros()))
    return dataLoss(fmt::format("it has {} bytes of zeros ({}) for {} blocks", codes.zeros().length(),
                                dataTypeName(codes.zeros().type()), lines * groups));
  return Status::ok();
}

QuantizedMatrix matrixOf(const Codes &codes, std::string name, const QuantizedPieces &pieces) {
  QuantizedMatrix matrix;
  matrix.name = std::move(name);
  matrix.format = codes.kind() == Codes::INTEGER ? fmt::format("integers of {} bits", codes.bits()) : "fp8";
  matrix.data = pieces.codes;
  matrix.code = codes.kind() == Codes::E4M3   ? QuantizedMatrix::Code::E4m3
                : codes.kind() == Codes::E5M2 ? QuantizedMatrix::Code::E5m2
                                              : QuantizedMatrix::Code::Integer;
  matrix.bits = codes.bits();
  matrix.isSigned = codes.is_signed();
  matrix.isTransposed = codes.transposed();
  matrix.rows = codes.rows();
  matrix.columns = codes.columns();
  matrix.shape = {int64_t(matrix.rows), int64_t(matrix.columns)};
  if (matrix.isTransposed)
    std::swap(matrix.shape[0], matrix.shape[1]);
  matrix.rowBytes = codes.row_bytes();
  matrix.blockRows = codes.block_rows();
  matrix.blockColumns = codes.block_columns();
  matrix.scales = {kindOf(codes.scales().type()), pieces.scales};
  matrix.zero = codes.zero();
  if (codes.has_zeros() && codes.zeros().type() == plan::U8) {
    matrix.packedZeros = pieces.zeros;
    matrix.zeroRowBits = codes.zero_row_bits();
  } else if (codes.has_zeros()) {
    matrix.zeros = {kindOf(codes.zeros().type()), pieces.zeros};
  }
  return matrix;
}

} // namespace ztc
