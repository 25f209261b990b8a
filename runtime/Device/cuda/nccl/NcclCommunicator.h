// Collectives between GPUs by NCCL.
#pragma once
#include "runtime/Collective/Communicators.h"
#include "runtime/Device/cuda/CudaLibraries.h"
#include <cstdint>
#include <memory>

namespace ztc {

struct NcclOptions {
  uint32_t rank = 0;
  uint32_t world = 1;
  uint64_t timeoutMs = 30000; ///< for the rendezvous; collectives wait for ever: hangs are the watchdog's business
  /// Ranks have GPUs in common, for tests. They must be processes: NCCL asks its variables once in each.
  bool sharesGpu = false;
  CudaLibraryPaths libraries;
  RendezvousStore store; ///< rank 0 puts NCCL's identity there
};

/// For the thread that has the GPU's context. Sums are NCCL's: f32 within a call of f32, and their order is that of its
/// algorithm, not that of ranks; that is pinned by NCCL_ALGO and NCCL_PROTO, which are set here unless the user did.
/// Errors of a stream surface in status(), which every later call returns.
///
/// Fails (FailedPrecondition) where NCCL is missing, Unavailable where ranks do not come together.
StatusOr<std::unique_ptr<Communicator>> createNcclCommunicator(const NcclOptions &options);

} // namespace ztc
