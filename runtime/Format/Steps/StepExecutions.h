// Which library executes what, in words that several kinds of steps share; the folders Device/host and Device/cuda do
// so.
#pragma once
#include "runtime/Format/Steps/StepDefinition.h"
#include "runtime/Format/plan.pb.h"
#include <cstdint>
#include <vector>

namespace ztc {

/// Products on the host, by the type of their operands. Which library it is shows on the processor that runs the plan.
CallExecution hostProduct(plan::DataType type);

/// Bytes of an operand on a GPU; 0: the step has no such operand.
uint64_t gpuOperandBytes(const plan::Plan &plan, const plan::Step &step, int operand);

/// A step's kernels for GPUs.
template <typename Record> std::vector<uint32_t> gpuKernelsOf(const Record &record) {
  return {record.gpu_kernels().begin(), record.gpu_kernels().end()};
}

/// The same reason on the host and on a GPU; `kernels` are the GPU's.
std::vector<CallExecution> executionsOf(bool host, bool gpu, const char *hostLibrary, const char *gpuLibrary,
                                        const char *reason, std::vector<uint32_t> kernels = {});

} // namespace ztc
