#include "frontends/onnx/Parameters.h"
#include "frontends/onnx/HostTensor.h"
#include "frontends/onnx/PositionTables.h"

using llvm::StringRef;

namespace ztc::importer {
namespace {

/// A matrix that a product or a lookup by token reads, or a vector that scales or shifts the last dimension of data.
bool isParameterUse(const Node &node, unsigned index, const Initializer &initializer, const Liveness &fromTokens) {
  size_t rank = initializer.shape.size();
  bool otherIsLive = false;
  for (unsigned i = 0; i < node.inputs.size(); ++i)
    otherIsLive |= i != index && fromTokens.isLive(node.inputs[i]);
  if (!otherIsLive)
    return false;
  if (node.domain == "com.microsoft" && StringRef(node.op).ends_with("Attention"))
    return rank == 1 &&
           ((node.op == "GroupQueryAttention" && index == 11) || (node.op == "MultiHeadAttention" && index == 3));
  if (node.op == "MatMul" || node.op == "Gemm" || node.op == "FusedMatMul")
    return rank == 2 || (node.op == "Gemm" && index == 2);
  if (node.op == "Gather")
    return index == 0 && rank == 2;
  if (node.op == "GatherND") // the matrices of the experts that a token was sent to
    return index == 0 && rank >= 2;
  if (node.op == "Mul" || node.op == "Add" || node.op == "BiasGelu" || node.op == "FastGelu")
    return rank == 1;
  return (StringRef(node.op).ends_with("Normalization")) && index >= 1;
}

bool passesThrough(const Node &node) {
  return node.op == "Transpose" || node.op == "Identity" || node.op == "Cast" || node.op == "CastLike" ||
         node.op == "Reshape" || node.op == "Unsqueeze";
}

/// What TorchScript writes where a norm has no weight or bias: ones or zeros from a Constant node, whose values are
/// named by the node's path. A parameter, fresh or not, is an initializer under its own name.
bool standsForNothing(const Node &node, const Initializer &initializer) {
  return StringRef(node.op).ends_with("Normalization") && StringRef(initializer.name).starts_with("/") &&
         !initializer.isExternal && HostTensor::fromInitializer(initializer).isSplat();
}

} // namespace

llvm::StringSet<> findParameters(const Model &model, const Names &names, const Liveness &fromTokens) {
  llvm::StringSet<> found;
  llvm::StringMap<const Initializer *> candidates; // value -> the initializer it is, up to transposes and casts
  for (const Initializer &initializer : model.initializers) {
    if (!isFloat(initializer.type))
      continue;
    Names::Kind kind = names.kindOf(initializer);
    if (kind == Names::Kind::Parameter || initializer.isRestored)
      found.insert(initializer.name);
    else if (kind == Names::Kind::Unknown && initializer.count() > 1)
      candidates[initializer.name] = &initializer;
  }
  for (const Node &node : model.nodes)
    for (unsigned i = 0; i < node.inputs.size(); ++i)
      if (const Initializer *initializer = candidates.lookup(node.inputs[i])) {
        if (isParameterUse(node, i, *initializer, fromTokens) && !standsForNothing(node, *initializer))
          found.insert(initializer->name);
        else if (i == 0 && passesThrough(node))
          candidates[node.outputs[0]] = initializer;
      }
  addPositionTables(model, names, found);
  return found;
}

} // namespace ztc::importer
