// What all ranks must see alike: one rank's failure, rank 0's decision. Every rank calls the same functions in the same
// order; a null channel stands for a run of one rank.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Ranks/ControlChannel.h"
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace ztc {

/// A status as bytes, its message cut where it is longer than an exchange may be; and back. InternalError where the
/// bytes are not a status.
Bytes encodeStatus(const Status &status);
Status decodeStatus(std::span<const std::byte> bytes);

/// Ok where every rank brings ok; else, on every rank, the status of the first rank that does not, with "rank 1: "
/// before its message where there are several ranks.
Status agree(ControlChannel *control, std::string_view exchange, const Status &mine);

/// Rank 0's text or failure, on every rank; what the others bring is not looked at.
StatusOr<std::string> fromFirstRank(ControlChannel *control, std::string_view exchange,
                                    const StatusOr<std::string> &mine);

inline bool isFirstRank(const ControlChannel *control) {
  return !control || control->rank() == 0;
}

} // namespace ztc
