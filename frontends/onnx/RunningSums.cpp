#include "frontends/onnx/RunningSums.h"

using llvm::StringRef;

namespace ztc::importer {
namespace {

/// Ops that take, arrange or hide elements of their first operand.
bool keepsElements(const Node &node, StringRef value) {
  static const llvm::StringSet<> moves{"Reshape",  "Transpose",      "Unsqueeze", "Squeeze", "Expand",
                                       "Slice",    "Split",          "Gather",    "Pad",     "Trilu",
                                       "Identity", "GatherElements", "Flatten"};
  if (node.op == "Where")
    return node.inputs[1] == value || node.inputs[2] == value;
  return moves.contains(node.op) && node.inputs[0] == value;
}

bool adds(const Node &node) {
  return node.op == "Sub" || node.op == "Add" || node.op == "Neg" || node.op == "Min" || node.op == "Max" ||
         node.op == "Clip";
}

} // namespace

void keepRunningSums(Model &model) {
  llvm::StringSet<> sums;
  for (Node &node : model.nodes) { // inputs are defined before they are used
    const bool isSum = node.op == "CumSum";
    bool readsSum = false;
    for (const std::string &input : node.inputs)
      readsSum |= sums.contains(input) && (adds(node) || keepsElements(node, input));
    if (!isSum && !readsSum)
      continue;
    if (node.width == Node::Width::Policy)
      node.width = Node::Width::Wide;
    for (const std::string &output : node.outputs)
      sums.insert(output);
  }
}

} // namespace ztc::importer
