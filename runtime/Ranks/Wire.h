// How messages between a rank and the server at rank 0 (ranks.proto) go over a socket: four bytes of length,
// little-endian, then the message.
#pragma once
#include "runtime/Ranks/ControlChannel.h"
#include "runtime/Ranks/ranks.pb.h"
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ztc {

/// Raised with every change of a message: ranks of different versions refuse one another by name.
inline constexpr uint32_t kWireVersion = 3;
inline constexpr uint64_t kWireMagic = 0x736b6e61722d7a74; // "tz-ranks"

/// A message from its bytes; of no kind where they are none.
ranks::Message parseMessage(std::string_view bytes);

ranks::Progress progressMessage(const RankProgress &progress);
RankProgress readProgress(const ranks::Progress &message);

/// A connected socket that never blocks, with what came in and is not read yet, and what is to go out. Closes it.
class Connection {
public:
  /// Takes over `descriptor` and makes it non-blocking.
  explicit Connection(int descriptor);
  Connection(Connection &&other) noexcept;
  Connection &operator=(Connection &&other) noexcept;
  ~Connection();

  int descriptor() const { return descriptor_; }
  void send(const ranks::Message &message);
  /// Bytes as they are, with no length in front.
  void sendRaw(std::string_view bytes) { out_ += bytes; }
  bool wantsToWrite() const { return sent_ < out_.size(); }
  /// Writes what goes without waiting. False where the peer is gone.
  bool flush();
  /// Reads what is there. False where the peer is gone; what came before that can still be taken.
  bool receive();
  /// The next whole message, without its length, valid until the next receive().
  std::optional<std::string_view> next();
  /// A length above this is nothing that a rank sends: the peer is cut off.
  void setLimit(size_t bytes) { limit_ = bytes; }
  bool isBroken() const { return broken_; }

private:
  int descriptor_ = -1;
  std::string in_, out_;
  size_t taken_ = 0, sent_ = 0;
  size_t limit_ = size_t(4) << 10;
  bool broken_ = false;
};

} // namespace ztc
