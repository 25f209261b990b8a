// Which of cuBLASLt's algorithms each matrix product of a plan takes, and who computes its attention.
#pragma once
#include "runtime/Device/cuda/CudaStep.h"

namespace ztc {

/// A candidate is executed once unmeasured (a library loads its kernel) and then so often; the shortest time counts.
inline constexpr int kTuningRepetitions = 5;
/// The first choice stays unless another one takes less than this part of its time: noise decides nothing.
inline constexpr double kClearlyFaster = 0.97;

/// Libraries, their versions and the GPU: what algorithms are good for. Empty where no step multiplies matrices.
std::string cudaAlgorithmKey(const CudaResources &resources);

/// Chooses for every call of the prepared steps: a known algorithm where the library takes it; else, within the time,
/// the fastest of the candidates; else the library's own first choice. The calls that take longest in the plan come
/// first, after those of attention (CudaAttentionTuning.h). Operands are random numbers all over the arena, which is
/// zero afterwards, as it was.
StatusOr<TunedAlgorithms> tuneCudaCalls(CudaResources &resources, const Arena &arena, const TuningRequest &request);

/// Takes over what another rank chose. FailedPrecondition where the library or the GPU is another one, or the library
/// refuses one: then that call keeps the algorithm it has.
Status useCudaAlgorithms(CudaResources &resources, const AlgorithmChoices &choices);

} // namespace ztc
