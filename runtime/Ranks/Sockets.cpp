#include "runtime/Ranks/Sockets.h"
#include <arpa/inet.h>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <fmt/format.h>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

namespace ztc {

namespace {

constexpr int kConnectMs = 3000; ///< of one attempt at one address: a host that is down does not answer at all

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

StatusOr<AddressList> resolve(const char *host, uint16_t port, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo *found = nullptr;
  int error = getaddrinfo(host, std::to_string(port).c_str(), &hints, &found);
  if (error)
    return unavailable(fmt::format("{}: {}", host ? host : "*", gai_strerror(error)));
  return AddressList(found, freeaddrinfo);
}

Status socketError(const char *what, int number) {
  return unavailable(fmt::format("{}: {}", what, std::strerror(number)));
}

/// Binds and listens at one address; `both` lets an IPv6 wildcard take IPv4 too.
StatusOr<int> listenOn(const addrinfo &address, bool both) {
  int descriptor = socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0)
    return socketError("socket", errno);
  int on = 1, v6only = both ? 0 : 1;
  setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (address.ai_family == AF_INET6)
    setsockopt(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, &v6only, sizeof v6only);
  if (bind(descriptor, address.ai_addr, address.ai_addrlen) == 0 && listen(descriptor, SOMAXCONN) == 0)
    return descriptor;
  int number = errno;
  close(descriptor);
  return Status(number == EADDRINUSE ? StatusCode::ResourceExhausted : StatusCode::Unavailable, std::strerror(number));
}

StatusOr<int> listenAnywhere(uint16_t port) {
  Status last = unavailable("no address");
  for (const char *wildcard : {"::", "0.0.0.0"}) {
    auto list = resolve(wildcard, port, AI_NUMERICHOST | AI_PASSIVE);
    if (!list.isOk())
      continue;
    auto made = listenOn(**list, true);
    if (made.isOk())
      return made;
    last = made.status();
    if (last.code() == StatusCode::ResourceExhausted)
      return last; // the port is taken; half of the addresses would hide that
  }
  return last;
}

std::string addressText(const sockaddr_storage &address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.ss_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in &>(address).sin_addr, text, sizeof text);
  } else if (address.ss_family == AF_INET6) {
    const in6_addr &six = reinterpret_cast<const sockaddr_in6 &>(address).sin6_addr;
    if (IN6_IS_ADDR_V4MAPPED(&six))
      inet_ntop(AF_INET, six.s6_addr + 12, text, sizeof text);
    else
      inet_ntop(AF_INET6, &six, text, sizeof text);
  }
  return text;
}

/// The name of this host: at the address that the others get for it, and at that alone. A host's own name may be
/// 127.0.1.1 here and something else elsewhere: then all addresses are listened at.
StatusOr<int> listenAtName(const HostPort &place) {
  auto list = resolve(place.host.c_str(), place.port, AI_PASSIVE);
  for (const addrinfo *address = list.isOk() ? list->get() : nullptr; address; address = address->ai_next) {
    sockaddr_storage storage{};
    std::memcpy(&storage, address->ai_addr, address->ai_addrlen);
    const std::string text = addressText(storage);
    if (isLoopback(text) && text != "127.0.0.1" && text != "::1")
      continue;
    auto made = listenOn(*address, false);
    if (made.isOk() || made.status().code() == StatusCode::ResourceExhausted)
      return made;
  }
  return listenAnywhere(place.port);
}

StatusOr<int> listenOnce(const HostPort &place) {
  auto numeric = resolve(place.host.c_str(), place.port, AI_NUMERICHOST | AI_PASSIVE);
  if (!numeric.isOk())
    return listenAtName(place);
  auto made = listenOn(**numeric, false);
  if (made.isOk() || made.status().code() == StatusCode::ResourceExhausted)
    return made;
  return listenAnywhere(place.port); // behind a translated address
}

/// Both ends are one and the same.
bool isOwnEnd(int descriptor) {
  sockaddr_storage near{}, far{};
  socklen_t nearSize = sizeof near, farSize = sizeof far;
  return getsockname(descriptor, reinterpret_cast<sockaddr *>(&near), &nearSize) == 0 &&
         getpeername(descriptor, reinterpret_cast<sockaddr *>(&far), &farSize) == 0 && nearSize == farSize &&
         std::memcmp(&near, &far, nearSize) == 0;
}

} // namespace

std::string HostPort::text() const {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port) : fmt::format("[{}]:{}", host, port);
}

StatusOr<HostPort> parseHostPort(const std::string &text) {
  HostPort place;
  size_t colon = text.rfind(':');
  if (colon != std::string::npos) {
    place.host = text.substr(0, colon);
    bool bracketed = place.host.size() > 2 && place.host.front() == '[' && place.host.back() == ']';
    if (bracketed)
      place.host = place.host.substr(1, place.host.size() - 2);
    const char *end = text.data() + text.size();
    auto [stop, error] = std::from_chars(text.data() + colon + 1, end, place.port);
    bool plain = bracketed || place.host.find(':') == std::string::npos;
    if (error == std::errc() && stop == end && place.port != 0 && !place.host.empty() && plain)
      return place;
  }
  return invalidArgument(fmt::format("expected HOST:PORT such as 10.0.0.1:29500 or [fd00::1]:29500, found '{}'", text));
}

StatusOr<int> listenAt(const HostPort &place, double seconds) {
  auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (true) {
    auto made = listenOnce(place);
    if (made.isOk())
      return made;
    bool taken = made.status().code() == StatusCode::ResourceExhausted;
    if (!taken || std::chrono::steady_clock::now() > deadline)
      return failedPrecondition(
          fmt::format("rank 0 cannot listen at {}: {}{}", place.text(), made.status().message(),
                      taken ? "; end the other program or choose another port with --rendezvous" : ""));
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

StatusOr<std::pair<int, HostPort>> listenOnFreePort(const std::string &address) {
  ZTC_ASSIGN_OR_RETURN(AddressList list, resolve(address.c_str(), 0, AI_NUMERICHOST));
  ZTC_ASSIGN_OR_RETURN(const int descriptor, listenOn(*list, false));
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  getsockname(descriptor, reinterpret_cast<sockaddr *>(&bound), &size);
  const uint16_t port = bound.ss_family == AF_INET ? reinterpret_cast<sockaddr_in &>(bound).sin_port
                                                   : reinterpret_cast<sockaddr_in6 &>(bound).sin6_port;
  return std::pair(descriptor, HostPort{address, ntohs(port)});
}

StatusOr<std::pair<int, HostPort>> listenLocally() {
  Status last;
  for (const char *address : {"127.0.0.1", "::1"}) {
    auto made = listenOnFreePort(address);
    if (made.isOk())
      return made;
    last = made.status();
  }
  return last.withContext("no port of this host can be listened at");
}

StatusOr<int> connectOnce(const HostPort &place) {
  ZTC_ASSIGN_OR_RETURN(AddressList list, resolve(place.host.c_str(), place.port, 0));
  Status last = unavailable(place.host + " has no address");
  for (const addrinfo *address = list.get(); address; address = address->ai_next) {
    int descriptor = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (descriptor < 0) {
      last = socketError("socket", errno);
      continue;
    }
    int number = connect(descriptor, address->ai_addr, address->ai_addrlen) == 0 ? 0 : errno;
    if (number == EINPROGRESS) {
      pollfd wait{descriptor, POLLOUT, 0};
      socklen_t size = sizeof number;
      if (poll(&wait, 1, kConnectMs) != 1)
        number = ETIMEDOUT;
      else
        getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &number, &size);
    }
    // Trying a free port of this host long enough connects a socket with itself.
    if (number == 0 && isOwnEnd(descriptor))
      number = ECONNREFUSED;
    if (number == 0) {
      int on = 1;
      setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      return descriptor;
    }
    last = unavailable(std::strerror(number));
    close(descriptor);
    sockaddr_storage far{};
    std::memcpy(&far, address->ai_addr, address->ai_addrlen);
    if (number == ENETUNREACH && isLoopback(addressText(far))) // it does not come up by itself
      return failedPrecondition("the loopback interface of this host is down: `ip link set lo up`");
  }
  return last;
}

std::string nearAddress(int descriptor) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  return getsockname(descriptor, reinterpret_cast<sockaddr *>(&address), &size) == 0 ? addressText(address) : "";
}

std::string farAddress(int descriptor) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  return getpeername(descriptor, reinterpret_cast<sockaddr *>(&address), &size) == 0 ? addressText(address) : "";
}

bool isLoopback(const std::string &address) {
  return address == "::1" || address.starts_with("127.");
}

} // namespace ztc
