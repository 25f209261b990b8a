#include "frontends/onnx/Budget.h"
#include "llvm/Support/MathExtras.h"

namespace ztc::importer {

std::shared_ptr<HostTensor> EvaluationBudget::allocate(ElementType type, Shape shape) {
  int64_t bytes = type == ElementType::Bool ? 1 : sizeof(double);
  for (int64_t size : shape)
    if (size < 0 || llvm::MulOverflow(bytes, size, bytes))
      return nullptr;
  if (uint64_t(bytes) > limits.bytes - *liveBytes)
    return nullptr;
  *liveBytes += uint64_t(bytes);
  return {new HostTensor(type, std::move(shape)), [live = liveBytes, bytes](HostTensor *tensor) {
            *live -= uint64_t(bytes);
            delete tensor;
          }};
}

bool EvaluationBudget::spend(uint64_t more) {
  operations = llvm::SaturatingAdd(operations, more);
  return operations <= limits.operations;
}

} // namespace ztc::importer
