// The host's cores beside a GPU: what a plan updates in the host's memory.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Device/host/KernelLibrary.h"
#include "runtime/Device/host/ThreadPool.h"
#include "runtime/Format/plan.pb.h"
#include <cstdint>
#include <memory>

namespace ztc {

/// A pool of threads and the plan's kernels for this processor. Jobs come from a thread of the driver, one at a time,
/// in the order of the stream of moves.
struct HostCores {
  ThreadPool pool;
  KernelLibrary kernels;

  explicit HostCores(uint32_t threads) : pool(threads) {}
  /// FailedPrecondition where the plan has no kernels for this processor.
  static StatusOr<std::shared_ptr<HostCores>> create(const plan::Plan &plan, uint32_t threads);
};

} // namespace ztc
