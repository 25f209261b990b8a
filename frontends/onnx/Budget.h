// What the evaluation of one import may take: a graph of a few bytes can ask for any memory and any time.
#pragma once
#include "frontends/onnx/HostTensor.h"

namespace ztc::importer {

/// Limits of one import, over all its evaluations.
struct EvaluationLimits {
  uint64_t bytes = UINT64_MAX;      ///< of the tensors that are alive at a time
  uint64_t operations = UINT64_MAX; ///< elements read and written, products added
};

class EvaluationBudget {
public:
  explicit EvaluationBudget(EvaluationLimits limits = {}) : limits(limits) {}

  /// A tensor of zeros that counts until it is destroyed; null where its size is impossible or the limit is reached.
  std::shared_ptr<HostTensor> allocate(ElementType type, Shape shape);
  /// False where the work of all evaluations together would be above the limit.
  bool spend(uint64_t operations);
  const EvaluationLimits limits;

private:
  std::shared_ptr<uint64_t> liveBytes =
      std::make_shared<uint64_t>(0); ///< shared with the tensors, which may live longer
  uint64_t operations = 0;
};

} // namespace ztc::importer
