// Formats of weights in fewer bits, as the plan names them.
#pragma once
#include "compiler/Dialect/Graph/Graph.h"
#include "runtime/Format/QuantizedWeight.h"

namespace ztc::graph {

static_assert(int(WeightFormat::Nf4) == int(plan::NF4) && int(WeightFormat::Int8) == int(plan::INT8) &&
              int(WeightFormat::Nf4Single) == int(plan::NF4_SINGLE) && int(WeightFormat::Mxfp4) == int(plan::MXFP4));

/// The same format in a plan.
inline plan::WeightFormat planFormat(WeightFormat format) {
  return plan::WeightFormat(format);
}

/// Whether an element is a code of 4 bits.
inline bool isNf4(WeightFormat format) {
  return ztc::isNf4(planFormat(format));
}

} // namespace ztc::graph
