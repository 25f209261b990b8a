#include "frontends/onnx/Budget.h"
#include "llvm/Support/MathExtras.h"

namespace ztc::importer {

std::shared_ptr<HostTensor> EvaluationBudget::allocate(ElementType type, Shape shape) {
  std::optional<int64_t> count = checkedCount(shape);
  if (!count)
    return nullptr;
  // Some bytes for the tensor itself: empty ones cost too.
  uint64_t bytes =
      llvm::SaturatingAdd(llvm::SaturatingMultiply(uint64_t(*count), uint64_t(type == ElementType::Bool ? 1 : 8)),
                          uint64_t(sizeof(HostTensor)));
  if (bytes > limits.bytes - *liveBytes)
    return nullptr;
  *liveBytes += bytes;
  return {new HostTensor(type, std::move(shape)), [live = liveBytes, bytes](HostTensor *tensor) {
            *live -= bytes;
            delete tensor;
          }};
}

bool EvaluationBudget::spend(uint64_t more) {
  operations = llvm::SaturatingAdd(operations, more);
  return operations <= limits.operations;
}

} // namespace ztc::importer
