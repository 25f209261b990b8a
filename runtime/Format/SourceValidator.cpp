#include "runtime/Format/SourceValidator.h"
#include "runtime/Format/PlanValidator.h"
#include "runtime/Format/QuantizedPieces.h"
#include "runtime/Format/QuantizedWeight.h"
#include <cmath>
#include <fmt/format.h>

namespace ztc {

using plan::Parameter, plan::WeightSource;

/// Of a source, or of a part of one.
template <typename Piece> static Status checkPiece(const Piece &piece, const std::string &where) {
  uint64_t end = 0;
  if (__builtin_add_overflow(piece.offset(), piece.length(), &end) || (piece.file_size() && end > piece.file_size()))
    return dataLoss(fmt::format("{}: its source ends at byte {} of a file of {}", where, end, piece.file_size()));
  if (!piece.sha256().empty() && piece.sha256().size() != 32)
    return dataLoss(where + ": the checksum of its source has not 32 bytes");
  return Status::ok();
}

Status checkSource(const Parameter &parameter, uint64_t count, const std::string &where) {
  const WeightSource &source = parameter.source();
  if (!std::isfinite(source.shift()))
    return dataLoss(where + ": what its values are shifted by is not a finite number");
  const bool isOrthogonal =
      source.start() == WeightSource::ORTHOGONAL_ROWS || source.start() == WeightSource::ORTHOGONAL_COLUMNS;
  const uint64_t rank = isOrthogonal && source.range() >= 2 && source.range() <= 0x1p20 ? uint64_t(source.range()) : 0;
  if (!WeightSource::Start_IsValid(source.start()) || !(source.range() >= 0) || !std::isfinite(source.range()) ||
      (isOrthogonal && (!rank || rank % 2 || count % rank)))
    return dataLoss(where + ": its fresh values are made in no way that there is");
  if (source.path().empty())
    return Status::ok();
  if (source.dequantized() && source.type() != plan::U8)
    return dataLoss(fmt::format("{}: its source has codes of {}, which are bytes", where, dataTypeName(source.type())));
  const bool isHalved = isNf4(parameter.format()) && source.type() == plan::U8; // two elements a byte
  const uint64_t elementBytes = dataTypeBytes(source.type());
  uint64_t bytes = 0;
  const bool isTooLong = __builtin_mul_overflow(isHalved ? (count + 1) / 2 : count, elementBytes, &bytes);
  if (!source.dequantized() && (!elementBytes || isTooLong || bytes != source.length()))
    return dataLoss(fmt::format("{}: its source has {} bytes of {}, it needs {} elements", where, source.length(),
                                dataTypeName(source.type()), count));
  ZTC_RETURN_IF_ERROR(checkPiece(source, where));
  if (!source.has_codes())
    return Status::ok();
  const auto isSomewhere = [](const WeightSource::Piece &piece) {
    return piece.path().empty() ? piece.data().size() == piece.length() : piece.data().empty();
  };
  if (!source.dequantized() || source.transpose() || !isSomewhere(source.codes().scales()) ||
      !isSomewhere(source.codes().zeros()))
    return dataLoss(where + ": parts of its codes are nowhere");
  ZTC_RETURN_IF_ERROR(checkPiece(source.codes().scales(), where));
  ZTC_RETURN_IF_ERROR(checkPiece(source.codes().zeros(), where));
  const auto &shape = checkpointShape(parameter);
  return checkCodes(source.codes(), {shape.data(), size_t(shape.size())}, source.length()).withContext(where);
}

} // namespace ztc
