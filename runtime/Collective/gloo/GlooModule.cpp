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
#include <gloo/transport/context.h>
#include <gloo/transport/tcp/address.h>
#include <gloo/transport/tcp/device.h>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace {

using gloo::transport::UnboundBuffer;

/// Waits have no limit of their own; Gloo wants a number that does not overflow its clocks.
constexpr auto kForEver = std::chrono::hours(24 * 365);

/// Gloo's messages begin with the place in its sources, which tells a user nothing.
std::string withoutPlace(const std::string &message) {
  const size_t end = message.front() == '[' ? message.find("] ") : std::string::npos;
  return end == std::string::npos ? message : message.substr(end + 2);
}

} // namespace

struct ZtcGloo {
  uint32_t rank = 0;
  uint32_t world = 0;
  std::shared_ptr<gloo::transport::Device> device;
  std::shared_ptr<gloo::transport::Context> context;
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

int open(uint32_t rank, uint32_t world, const char *address, uint64_t connectTimeoutMs, ZtcGloo **result,
         ZtcGlooError *error) {
  return guarded(nullptr, -1, error, [&] {
    auto made = std::make_unique<ZtcGloo>();
    made->rank = rank;
    made->world = world;
    gloo::transport::tcp::attr attributes;
    attributes.hostname = address;
    made->device = gloo::transport::tcp::CreateDevice(attributes);
    made->context = made->device->createContext(int(rank), int(world));
    // Pairs take their limit for connecting when they are made, and stretch it by five.
    made->context->setTimeout(std::chrono::milliseconds(connectTimeoutMs / 5 + 1));
    for (uint32_t peer = 0; peer < world; ++peer)
      if (peer != rank)
        made->context->createPair(int(peer));
    made->context->setTimeout(kForEver);
    for (auto &lane : made->lanes)
      lane = made->makeBuffer();
    *result = made.release();
    return true;
  });
}

int address(ZtcGloo *gloo, uint32_t peer, void *bytes, uint64_t capacity, uint64_t *size, ZtcGlooError *error) {
  return guarded(gloo, -1, error, [&] {
    const std::vector<char> own = gloo->context->getPair(int(peer))->address().bytes();
    if (own.size() > capacity)
      throw std::length_error("an address of " + std::to_string(own.size()) + " bytes");
    std::memcpy(bytes, own.data(), own.size());
    *size = own.size();
    return true;
  });
}

int connect(ZtcGloo *gloo, uint32_t peer, const void *bytes, uint64_t size, ZtcGlooError *error) {
  return guarded(gloo, int32_t(peer), error, [&] {
    const auto *begin = static_cast<const char *>(bytes);
    gloo->context->getPair(int(peer))->connect(std::vector<char>(begin, begin + size));
    return true;
  });
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

constexpr ZtcGlooFunctions kFunctions = {ZTC_GLOO_VERSION, open,      address,      connect, send,
                                         receive,          waitSends, waitReceives, abort,   close};

} // namespace

extern "C" __attribute__((visibility("default"))) const ZtcGlooFunctions *ztcGlooFunctions(void) {
  return &kFunctions;
}
