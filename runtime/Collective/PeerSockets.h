// Connections between all ranks of a run over TCP: made here and not by a library, so that what a stranger sends to the
// port of a rank, or a connection that breaks while they are made, is never taken for a rank.
#pragma once
#include "runtime/Collective/Communicators.h"
#include "runtime/Core/Status.h"
#include <cstdint>
#include <string>
#include <vector>

namespace ztc {

/// A connected socket that is closed with its owner, unless it was released.
class PeerSocket {
public:
  PeerSocket() = default;
  explicit PeerSocket(int descriptor) : descriptor_(descriptor) {}
  PeerSocket(PeerSocket &&other) noexcept : descriptor_(other.release()) {}
  PeerSocket &operator=(PeerSocket &&other) noexcept;
  ~PeerSocket();

  int descriptor() const { return descriptor_; }
  bool isOpen() const { return descriptor_ >= 0; }
  /// Hands the descriptor over.
  int release();

private:
  int descriptor_ = -1;
};

/// Connects each rank with every other one and returns the sockets by rank, with none at its own place. All ranks call
/// it at the same time. Each listens at `options.address` and puts into the store, for every other rank, where that is
/// and a token that nobody else knows; the higher rank of a pair connects, both ends show the other's token. What comes
/// without one is closed, and a connection that breaks before both ends have seen it is made again. Unavailable names
/// the rank that is not connected after `options.timeoutMs`.
StatusOr<std::vector<PeerSocket>> connectPeers(const GlooOptions &options);

} // namespace ztc
