// Whether cuDNN or own kernels compute a plan's attention, where both can.
#pragma once
#include "runtime/Device/cuda/CudaStep.h"
#include <chrono>

namespace ztc {

/// True where some prepared step leaves the choice.
bool hasAttentionChoice(const CudaResources &resources);

/// Chooses for every call of the prepared steps: what is known, where `request` has it for `tuned.all.key`; else, until
/// `end`, the faster one, cuDNN's where own kernels are not clearly faster. Adds what it found to `tuned`. Steps are
/// executed where they lie in the arena, on random numbers; the caller makes it zero again.
Status tuneCudaAttention(CudaResources &resources, const Arena &arena, const TuningRequest &request,
                         std::chrono::steady_clock::time_point end, TunedAlgorithms &tuned);

/// Takes over what another rank chose. The signature of the first call that cannot, or nothing.
std::string useCudaAttention(CudaResources &resources, const AlgorithmChoices &choices);

} // namespace ztc
