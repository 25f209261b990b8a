// libztc-gloo.so: Gloo's TCP pairs behind a C table. The only file of the runtime that catches exceptions of Gloo.
//
// Gloo's own collectives are not used: they sum in another order. Its messages between "unbound buffers" are, which
// are matched by tag, need no set-up per call, and report a broken connection at once. A buffer here spans the whole
// address space, so that the offset is the address: TCP registers nothing, and buffers are made once instead of twice
// a call.
#include "runtime/Collective/gloo/GlooModule.h"
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <gloo/transport/tcp/context.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/tcp/pair.h>
#include <limits>
#include <memory>
#include <mutex>
#include <random>
#include <stdexcept>
#include <string>
#include <unistd.h>

namespace {

namespace tcp = gloo::transport::tcp;
using gloo::transport::UnboundBuffer;

/// Waits have no limit of their own; Gloo wants a number that does not overflow its clocks.
constexpr auto kForEver = std::chrono::hours(24 * 365);

/// Gloo's messages begin with the place in its sources, which tells a user nothing.
std::string withoutPlace(const std::string &message) {
  const size_t end = message.front() == '[' ? message.find("] ") : std::string::npos;
  return end == std::string::npos ? message : message.substr(end + 2);
}

/// A pair over a socket that has been connected for it. Gloo's own way takes the first connection that comes for that
/// of the other rank, and ends the process where that breaks at once.
class AdoptingPair : public tcp::Pair {
public:
  AdoptingPair(tcp::Context *context, tcp::Device *device, int rank, std::chrono::milliseconds timeout)
      : tcp::Pair(context, device, rank, timeout) {
    std::lock_guard lock(m_);
    stopListening();
  }

  /// `isTaken`: the pair closes the descriptor.
  void adopt(int descriptor, bool &isTaken) {
    std::lock_guard lock(m_);
    stopListening(); // what has come since is not for us
    fd_ = descriptor;
    isTaken = true;
    handleConnected();
  }

private:
  void stopListening() {
    if (fd_ < 0)
      return;
    device_->unregisterDescriptor(fd_, this);
    ::close(fd_);
    fd_ = -1;
  }
};

class MadeContext : public tcp::Context {
public:
  using tcp::Context::Context;

  std::unique_ptr<gloo::transport::Pair> &createPair(int rank) override {
    pairs_[rank] = std::make_unique<AdoptingPair>(this, device_.get(), rank, getTimeout());
    return pairs_[rank];
  }
};

} // namespace

struct ZtcGloo {
  uint32_t rank = 0;
  uint32_t world = 0;
  std::shared_ptr<tcp::Device> device;
  std::shared_ptr<MadeContext> context;
  std::mutex mutex; ///< of the buffers' existence: abort() comes from another thread
  std::array<std::unique_ptr<UnboundBuffer>, ZTC_GLOO_LANES> lanes;
  std::atomic<bool> aborted{false};

  std::unique_ptr<UnboundBuffer> makeBuffer() {
    return context->createUnboundBuffer(nullptr, std::numeric_limits<size_t>::max());
  }
  /// After an error: what is still under way finds no buffer any more and leaves the caller's memory alone.
  void dropBuffers() {
    std::lock_guard lock(mutex);
    for (auto &lane : lanes)
      lane.reset();
  }
  int32_t findBroken(const std::exception_ptr &cause);
};

/// The rank whose connection raised `cause`. A pair keeps its exception and throws it again at the next use: the same
/// object that its pending buffers got.
int32_t ZtcGloo::findBroken(const std::exception_ptr &cause) {
  std::unique_ptr<UnboundBuffer> probe = makeBuffer();
  for (uint32_t peer = 0; peer < world; ++peer) {
    if (peer == rank)
      continue;
    try {
      probe->recv(int(peer), std::numeric_limits<uint64_t>::max(), 0, 0);
    } catch (...) {
      if (std::current_exception() == cause)
        return int32_t(peer);
    }
  }
  return -1;
}

namespace {

int report(ZtcGlooError *error, int32_t peer, const std::string &message) {
  error->peer = peer;
  std::snprintf(error->message, sizeof(error->message), "%s", message.c_str());
  return 1;
}

/// Runs `body` with everything that it throws turned into an error. `peer`: the rank it talks to, or -1.
template <typename Body> int guarded(ZtcGloo *gloo, int32_t peer, ZtcGlooError *error, Body &&body) {
  std::string message = "unknown failure in libgloo";
  try {
    if (!gloo || !gloo->aborted.load()) {
      if (body())
        return 0;
    }
    if (gloo)
      gloo->dropBuffers();
    return report(error, -1, "ended");
  } catch (const std::exception &exception) {
    message = withoutPlace(exception.what());
    try {
      if (peer < 0 && gloo)
        peer = gloo->findBroken(std::current_exception());
    } catch (...) {
      peer = -1;
    }
  } catch (...) {
  }
  if (gloo) {
    gloo->aborted = true;
    gloo->dropBuffers();
  }
  return report(error, peer, message);
}

/// A device whose listeners nobody finds: each pair makes one before it can be told that it needs none. No other
/// program knows the address in the loopback network, which is not reached from another host at all.
std::shared_ptr<tcp::Device> hiddenDevice() {
  std::random_device random;
  const auto number = [&random] { return std::to_string(random() % 254 + 1); };
  const std::string hidden = "127." + number() + "." + number() + "." + number();
  for (const std::string &address : {hidden, std::string("127.0.0.1"), std::string("::1")}) {
    try {
      tcp::attr attributes;
      attributes.hostname = address;
      return std::dynamic_pointer_cast<tcp::Device>(tcp::CreateDevice(attributes));
    } catch (const std::exception &) { // a host without IPv4
      continue;
    }
  }
  throw std::runtime_error("the loopback interface of this host is down: `ip link set lo up`");
}

int open(uint32_t rank, uint32_t world, ZtcGloo **result, ZtcGlooError *error) {
  return guarded(nullptr, -1, error, [&] {
    auto made = std::make_unique<ZtcGloo>();
    made->rank = rank;
    made->world = world;
    made->device = hiddenDevice();
    made->context = std::make_shared<MadeContext>(made->device, int(rank), int(world));
    made->context->setTimeout(kForEver);
    for (auto &lane : made->lanes)
      lane = made->makeBuffer();
    *result = made.release();
    return true;
  });
}

int adopt(ZtcGloo *gloo, uint32_t peer, int descriptor, ZtcGlooError *error) {
  bool isTaken = false;
  const int failed = guarded(gloo, int32_t(peer), error, [&] {
    gloo->context->createPair(int(peer));
    static_cast<AdoptingPair &>(*gloo->context->getPair(int(peer))).adopt(descriptor, isTaken);
    return true;
  });
  if (failed && !isTaken)
    ::close(descriptor);
  return failed;
}

int send(ZtcGloo *gloo, uint32_t lane, uint32_t peer, uint64_t tag, const void *data, uint64_t bytes,
         ZtcGlooError *error) {
  return guarded(gloo, int32_t(peer), error, [&] {
    gloo->lanes[lane]->send(int(peer), tag, reinterpret_cast<size_t>(data), bytes);
    return true;
  });
}

int receive(ZtcGloo *gloo, uint32_t lane, uint32_t peer, uint64_t tag, void *data, uint64_t bytes,
            ZtcGlooError *error) {
  return guarded(gloo, int32_t(peer), error, [&] {
    gloo->lanes[lane]->recv(int(peer), tag, reinterpret_cast<size_t>(data), bytes);
    return true;
  });
}

int waitSends(ZtcGloo *gloo, uint32_t lane, uint32_t count, ZtcGlooError *error) {
  return guarded(gloo, -1, error, [&] {
    for (uint32_t i = 0; i < count; ++i)
      if (!gloo->lanes[lane]->waitSend() || gloo->aborted.load())
        return false;
    return true;
  });
}

int waitReceives(ZtcGloo *gloo, uint32_t lane, uint32_t count, ZtcGlooError *error) {
  return guarded(gloo, -1, error, [&] {
    for (uint32_t i = 0; i < count; ++i)
      if (!gloo->lanes[lane]->waitRecv() || gloo->aborted.load())
        return false;
    return true;
  });
}

/// A buffer remembers being told to stop: it does not matter whether the wait has begun yet.
void abort(ZtcGloo *gloo) {
  gloo->aborted = true;
  std::lock_guard lock(gloo->mutex);
  for (auto &lane : gloo->lanes)
    if (lane) {
      lane->abortWaitSend();
      lane->abortWaitRecv();
    }
}

void close(ZtcGloo *gloo) {
  try {
    gloo->dropBuffers();
    for (uint32_t peer = 0; peer < gloo->world; ++peer)
      if (peer != gloo->rank && gloo->context->getPair(int(peer)))
        gloo->context->getPair(int(peer))->close();
    delete gloo;
  } catch (...) {
    // The process ends soon, and with it the connections.
  }
}

constexpr ZtcGlooFunctions kFunctions = {ZTC_GLOO_VERSION, open,         adopt, send, receive,
                                         waitSends,        waitReceives, abort, close};

} // namespace

extern "C" __attribute__((visibility("default"))) const ZtcGlooFunctions *ztcGlooFunctions(void) {
  return &kFunctions;
}
