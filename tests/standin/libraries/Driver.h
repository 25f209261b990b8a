// What the files of the stand-in driver share: the process's one driver, and what its calls check first.
#pragma once
#include "tests/standin/libraries/Streams.h"
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

struct CUctx_st {};

// Every function that the runtime takes from the real driver, so that each definition is held against it.
namespace ztc::cuda {
#define ZTC_DECLARE(function, arguments) extern "C" Result function arguments;
ZTC_CUDA_FUNCTIONS(ZTC_DECLARE)
#undef ZTC_DECLARE
} // namespace ztc::cuda

namespace ztc::standin {

struct Driver {
  std::mutex mutex;
  std::atomic<bool> initialized{false};
  std::map<uint64_t, uint64_t> device; ///< live allocations: address, bytes
  std::map<uint64_t, uint64_t> pinned;
  std::map<CUstream_st *, std::shared_ptr<CUstream_st>> streams;
  std::set<CUevent_st *> events;
  std::set<cuda::Module> modules;
  struct Reservation {
    uint64_t bytes = 0;
    bool isMapped = false;
  };
  std::map<uint64_t, Reservation>
      reserved; ///< virtual memory: addresses, with memory behind them where they are mapped
  std::map<cuda::MemoryHandle, uint64_t> memories; ///< of cuMemCreate: bytes
  uint64_t nextMemory = 1;
  uint64_t allocated = 0;
  std::atomic<bool> hasContext{false};
  std::atomic<cuda::Result> sticky{cuda::kSuccess}; ///< what a kernel or copy did wrong: every later call returns it
  CUctx_st context;
};

Driver &driver();

/// A number of the environment.
uint64_t number(const char *variable, uint64_t otherwise);

/// Ok to go on: initialized, with a context in this thread, and nothing has failed.
cuda::Result ready();
/// Tells it on stderr; every later call returns `result`.
void fail(cuda::Result result, const std::string &what);

/// Returns when all streams are empty, as calls of the real one do that release what streams may still use. Others may
/// destroy theirs meanwhile.
void drainAll();
bool knowsStream(cuda::Stream stream);
bool knowsEvent(cuda::Event event);

/// True for device memory and for page-locked memory of the host: what a kernel may touch.
bool isReachable(const void *address, uint64_t bytes);

} // namespace ztc::standin
