// Messages of the control channel: the bytes go to rank 0's server, from a stranger and from a rank that has proved
// that it is one, and through the reader of messages. The first byte of the input says from whom.
#include "runtime/Ranks/ControlServer.h"
#include "runtime/Ranks/RunSecret.h"
#include "runtime/Ranks/Wire.h"
#include "tests/fuzz/Fuzz.h"
#include "tests/unit/runtime/RankMessages.h"
#include <cstdlib>
#include <cstring>
#include <memory>
#include <poll.h>
#include <sys/socket.h>

using namespace ztc;

namespace {

constexpr const char *kSecret = "of the fuzzed run";

/// The other end of a connection to the server.
class Caller {
public:
  explicit Caller(int descriptor) : connection_(descriptor) { connection_.setLimit(size_t(1) << 22); }

  /// The next message; empty where the server closes, or says nothing for a while.
  std::string hear() {
    for (bool isOpen = true; isOpen;) {
      if (auto message = connection_.next())
        return std::string(*message);
      pollfd wait{connection_.descriptor(), POLLIN, 0};
      if (poll(&wait, 1, 200) != 1)
        return {};
      isOpen = connection_.receive();
    }
    const auto last = connection_.next();
    return last ? std::string(*last) : std::string();
  }

  void hello(uint32_t rank) {
    const std::string greeting = hear();
    say(helloMessage(rank, 2, "1", kSecret, parseMessage(greeting).greeting().nonce(), "a nonce"));
  }

  void say(std::string_view bytes) {
    connection_.sendRaw(bytes);
    (void)connection_.flush();
  }
  void say(const ranks::Message &message) {
    connection_.send(message);
    (void)connection_.flush();
  }
  void end() { shutdown(connection_.descriptor(), SHUT_WR); }

private:
  Connection connection_;
};

void readMessages(std::string_view bytes) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
    return;
  Connection from(pair[0]), to(pair[1]);
  from.sendRaw(bytes);
  (void)from.flush();
  (void)to.receive();
  while (auto message = to.next()) {
    const ranks::Message parsed = parseMessage(*message);
    (void)readProgress(parsed.report());
    (void)parsed.SerializeAsString();
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (!size || size > 100000) // what a socket takes at once
    return 0;
  const std::string_view bytes = fuzz::text(data + 1, size - 1);
  readMessages(bytes);
  int first[2], second[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, first) != 0 ||
      socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, second) != 0)
    return 0;
  const auto server = ControlServer::start({.world = 2, .secret = kSecret, .version = "1", .timeoutSeconds = 60}, -1,
                                           {first[1], second[1]});
  Caller zero(first[0]), one(second[0]);
  const bool isRank = data[0] & 1;
  if (isRank) {
    zero.hello(0);
    one.hello(1);
    (void)one.hear(); // Welcome
  }
  one.say(bytes);
  one.end();
  bool isWelcome = false;
  for (std::string message = one.hear(); !message.empty(); message = one.hear())
    isWelcome |= parseMessage(message).has_welcome();
  if (!isRank && isWelcome)
    std::abort(); // a stranger is taken for a rank
  (void)server->states();
  return 0;
}
