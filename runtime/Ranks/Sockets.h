// Addresses, listening and connecting over IPv4 and IPv6.
#pragma once
#include "runtime/Core/Status.h"
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

namespace ztc {

struct HostPort {
  std::string host; ///< a name or a numeric address, without brackets
  uint16_t port = 0;
  /// "host:port", with brackets around an IPv6 address.
  std::string text() const;
};

/// Reads HOST:PORT; an IPv6 address stands in brackets. InvalidArgument on anything else.
StatusOr<HostPort> parseHostPort(const std::string &text);

/// A listening socket that closes on exec. A numeric address that belongs to this machine is bound as it is; a name is
/// never: it may resolve to 127.0.1.1 on its own host, which no other host reaches. Then all addresses are bound.
/// Retries while the port is taken by an earlier run that is ending, `seconds` at most.
StatusOr<int> listenAt(const HostPort &place, double seconds);
/// A listening socket on a free port of 127.0.0.1 (of ::1 where there is no IPv4), and where that is.
StatusOr<std::pair<int, HostPort>> listenLocally();

/// The same at a numeric address of this host. Unavailable with the reason where it is not such an address.
StatusOr<std::pair<int, HostPort>> listenOnFreePort(const std::string &address);

/// One attempt at all addresses that the host has now. Unavailable with the reason where none answers.
StatusOr<int> connectOnce(const HostPort &place);

/// Numeric address of the near or far end of a connected socket; an IPv4 address that came over IPv6 as IPv4. Empty for
/// sockets without one.
std::string nearAddress(int descriptor);
std::string farAddress(int descriptor);
bool isLoopback(const std::string &address);

} // namespace ztc
