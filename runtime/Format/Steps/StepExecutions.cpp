#include "runtime/Format/Steps/StepExecutions.h"

namespace ztc {

CallExecution hostProduct(plan::DataType type) {
  constexpr const char *kLibrary = "own products";
  if (type == plan::F32)
    return {"host", kLibrary, "tiles of the result, shared out to the threads", {}};
  if (type == plan::BF16)
    return {"host",
            kLibrary,
            "in bf16 where the processor has AMX or AVX512-BF16, else f32 panels of widened operands",
            {}};
  return {"host", kLibrary, "f32 panels of widened operands", {}};
}

uint64_t gpuOperandBytes(const plan::Plan &plan, const plan::Step &step, int operand) {
  if (operand < 0 || operand >= step.operands_size() || int(step.operands(operand).slot()) >= plan.slots_size())
    return 0;
  const plan::SizeForm &size = plan.slots(int(step.operands(operand).slot())).size();
  return size.gpu_elements() * size.element_bytes();
}

std::vector<CallExecution> executionsOf(bool host, bool gpu, const char *hostLibrary, const char *gpuLibrary,
                                        const char *reason, std::vector<uint32_t> kernels) {
  std::vector<CallExecution> executions;
  if (host)
    executions.push_back({"host", hostLibrary, reason, {}});
  if (gpu)
    executions.push_back({"gpu", gpuLibrary, reason, std::move(kernels)});
  return executions;
}

} // namespace ztc
