// Rank 0's side of the control channel: one thread that hears every rank and answers.
#pragma once
#include "runtime/Ranks/ControlChannel.h"
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ztc {

struct ServerOptions {
  uint32_t world = 1;
  std::string secret = {};     ///< of the run: who does not prove that it has it is sent away, and changes nothing
  std::string version = {};    ///< of ztc: all ranks run the same
  double timeoutSeconds = 300; ///< of the watchdog
  double joinSeconds = 300;    ///< until every rank must be there
  std::string place = {};      ///< where it listens, for the person
  /// Lines for the person (ranks that are late, stragglers), from the server's thread. May be empty.
  std::function<void(const std::string &)> notice = {};
};

/// Serves until every rank has left, or until it is destroyed: that closes all connections.
class ControlServer {
public:
  /// Takes over `listener` (-1: nobody else comes) and the already connected `sockets`.
  static std::unique_ptr<ControlServer> start(ServerOptions options, int listener, const std::vector<int> &sockets);
  virtual ~ControlServer() = default;
  /// Any thread.
  virtual std::vector<RankState> states() const = 0;
};

} // namespace ztc
