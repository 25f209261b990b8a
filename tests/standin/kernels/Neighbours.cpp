// A kernel whose threads read what their neighbours wrote: with a barrier in between, or (any argument) without it,
// which ThreadSanitizer must tell. For tests/e2e/simt-sanitizers.sh and tests/e2e/sanitizers.py.
#include "tests/standin/Simt.h"
#include <cstdio>
#include <vector>

extern "C" {
int32_t llvm_nvvm_read_ptx_sreg_tid_x();
void llvm_nvvm_barrier_cta_sync_aligned_all(int32_t);
}

static constexpr int32_t kThreads = 64;
static float sharedValues[kThreads];
static bool leavesOutTheBarrier;

static void neighbours(void *const *parameters) {
  float *result = *static_cast<float *const *>(parameters[0]);
  const int32_t thread = llvm_nvvm_read_ptx_sreg_tid_x();
  for (int32_t round = 0; round < 3; ++round) {
    sharedValues[thread] = float(thread + round);
    if (!leavesOutTheBarrier)
      llvm_nvvm_barrier_cta_sync_aligned_all(0);
    result[thread] = sharedValues[(thread + 1) % kThreads];
    llvm_nvvm_barrier_cta_sync_aligned_all(0);
  }
}

int main(int argc, char **) {
  leavesOutTheBarrier = argc > 1;
  std::vector<float> result(kThreads);
  float *address = result.data();
  void *parameters[] = {&address};
  const ztc::Status status = ztc::simt::launch(neighbours, {{3}, {uint32_t(kThreads)}}, parameters);
  std::printf("%s%g\n", status.message().c_str(), double(result[0]));
  return status.isOk() && (leavesOutTheBarrier || result[0] == 3) ? 0 : 1;
}
