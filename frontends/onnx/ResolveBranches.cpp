#include "frontends/onnx/ResolveBranches.h"
#include "frontends/onnx/InlineBranches.h"

namespace ztc::importer {

bool resolveBranches(Model &model, const Liveness &liveness, Binding binding, std::string &error) {
  Evaluator evaluator(model, liveness, binding);
  bool found = false;
  for (Node &node : model.nodes) {
    if (node.signature != kChoose)
      continue;
    found = true;
    TensorRef condition = evaluator.valueOf(node.inputs[0]);
    if (!condition || condition->count() != 1) {
      error = "node '" + node.label() + "' (If): its condition '" + node.inputs[0] + "' " +
              (liveness.isLive(node.inputs[0]) ? "depends on tokens or weights"
               : condition                     ? "is not one value"
                                               : "cannot be evaluated: " + evaluator.error()) +
              "; export the model without control flow that data decide";
      return found;
    }
    node.inputs = {node.inputs[condition->integer(0) ? 1 : 2]};
    node.op = node.signature = "Identity";
    node.domain.clear();
  }
  return found;
}

} // namespace ztc::importer
