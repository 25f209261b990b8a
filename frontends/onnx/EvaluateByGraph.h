// Ops that stand for whole pieces of a model are evaluated as they are trained: through their emission, by the
// reference interpreter. Their elements are f32.
#pragma once
#include "frontends/onnx/Evaluator.h"

namespace ztc::importer {

/// Fills the outputs of the context's node, whose shapes are defined and whose inputs are all known.
void evaluateByGraph(KernelContext &c);

/// A kernel from a function that defines the outputs' shapes.
template <void (*shapes)(KernelContext &)> void byGraph(KernelContext &c) {
  shapes(c);
  if (c.wantData && !c.failed())
    evaluateByGraph(c);
}

} // namespace ztc::importer
