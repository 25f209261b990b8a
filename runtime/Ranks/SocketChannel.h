// The control channel over sockets: between processes by TCP, between threads of a test by socket pairs.
#pragma once
#include "runtime/Ranks/ControlChannel.h"
#include "runtime/Ranks/Sockets.h"
#include <functional>
#include <memory>
#include <string>
#include <variant>

namespace ztc {

struct JoinOptions {
  uint32_t rank = 0;
  uint32_t world = 1;
  HostPort place = {};      ///< where rank 0 listens
  int listener = -1;        ///< rank 0: a socket that listens there already; taken over
  std::string secret = {};  ///< of the run: the same on all its ranks, and nobody else's
  std::string version = {}; ///< of ztc
  /// Ranks may come so late, and hang so long, in seconds.
  double timeoutSeconds = 300;
  /// Lines for the person: who is awaited at the start, and on rank 0, from the channel's thread, ranks that wait for
  /// slower ones. May be empty.
  std::function<void(const std::string &)> notice = {};
  /// Asked while ranks are awaited: true ends the waiting (a signal came). May be empty.
  std::function<bool()> cancelled = {};
};

using JoinResult = std::variant<std::unique_ptr<ControlChannel>, RunFailure>;

/// Returns when all ranks are there. Rank 0 listens, the others connect and try again until the timeout. Refusals and
/// missing ranks give a message that names both sides.
JoinResult joinRun(JoinOptions options);

} // namespace ztc
