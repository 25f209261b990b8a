#include "runtime/Ranks/Agreement.h"
#include <algorithm>

namespace ztc {

Bytes encodeStatus(const Status &status) {
  const std::string &message = status.message();
  const size_t length = std::min(message.size(), kMaxExchangeBytes / 2);
  const auto *text = reinterpret_cast<const std::byte *>(message.data());
  Bytes bytes{static_cast<std::byte>(status.code())};
  bytes.insert(bytes.end(), text, text + length);
  return bytes;
}

Status decodeStatus(std::span<const std::byte> bytes) {
  if (bytes.empty() || static_cast<uint8_t>(bytes[0]) > static_cast<uint8_t>(StatusCode::Internal))
    return internalError("a rank sent what is not a status");
  const auto code = static_cast<StatusCode>(bytes[0]);
  if (code == StatusCode::Ok)
    return Status::ok();
  return {code, std::string(reinterpret_cast<const char *>(bytes.data()) + 1, bytes.size() - 1)};
}

Status agree(ControlChannel *control, std::string_view exchange, const Status &mine) {
  if (!control || control->world() == 1)
    return mine;
  ZTC_ASSIGN_OR_RETURN(const std::vector<Bytes> all, control->allGather(exchange, encodeStatus(mine)));
  for (size_t rank = 0; rank < all.size(); ++rank)
    if (Status theirs = decodeStatus(all[rank]); !theirs.isOk())
      return theirs.withContext("rank " + std::to_string(rank));
  return Status::ok();
}

StatusOr<std::string> fromFirstRank(ControlChannel *control, std::string_view exchange,
                                    const StatusOr<std::string> &mine) {
  if (!control || control->world() == 1)
    return mine;
  Bytes bytes;
  if (control->rank() == 0) {
    bytes = encodeStatus(mine.status());
    if (mine.isOk()) {
      if (mine->size() >= kMaxExchangeBytes)
        return internalError("exchange " + std::string(exchange) + ": too many bytes");
      const auto *text = reinterpret_cast<const std::byte *>(mine->data());
      bytes.insert(bytes.end(), text, text + mine->size());
    }
  }
  ZTC_ASSIGN_OR_RETURN(const Bytes first, control->broadcast(exchange, bytes));
  if (first.empty())
    return internalError("exchange " + std::string(exchange) + ": rank 0 gave nothing");
  if (first[0] != static_cast<std::byte>(StatusCode::Ok))
    return decodeStatus(first).withContext("rank 0");
  return std::string(reinterpret_cast<const char *>(first.data()) + 1, first.size() - 1);
}

} // namespace ztc
