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
  CudaLibraryPaths libraries;
  RendezvousStore store; ///< rank 0 puts NCCL's identity there
};

/// For the thread that has the GPU's context. Sums are NCCL's: f32 within a call of f32, and their order is that of its
/// pinned algorithm, not that of ranks. Errors of a stream surface in status(), which every later call returns.
///
/// Fails (FailedPrecondition) where NCCL is missing, Unavailable where ranks do not come together.
StatusOr<std::unique_ptr<Communicator>> createNcclCommunicator(const NcclOptions &options);

} // namespace ztc
