// Pieces of a bucket: what a rank holds of it, cut so that each fits a window of fixed size.
#pragma once
#include "runtime/Format/plan.pb.h"
#include <algorithm>
#include <cstdint>

namespace ztc {

/// Where a piece lies in what it is a piece of, in bytes.
struct PieceBytes {
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

/// The piece that `operand` names of the `available` bytes which it would have without one, of a slot of this form: its
/// length or what is left, nothing where it begins past them.
inline PieceBytes pieceBytes(const plan::SizeForm &size, const plan::Operand &operand, uint64_t available) {
  const uint64_t perRecord = std::max<uint64_t>(1, size.block_elements());
  const uint64_t whole = operand.piece_elements() / perRecord * size.element_bytes();
  uint64_t begin = 0;
  if (__builtin_mul_overflow(whole, uint64_t(operand.piece()), &begin) || begin >= available)
    return {available, 0};
  return {begin, std::min(whole, available - begin)};
}

} // namespace ztc
