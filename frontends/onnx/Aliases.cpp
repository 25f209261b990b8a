#include "frontends/onnx/Aliases.h"
#include "llvm/ADT/STLExtras.h"

using llvm::StringRef;

namespace ztc::importer {

void readAliases(Model &model) {
  llvm::StringMap<std::string> tensorOf;
  for (const Node &node : model.nodes)
    if (node.op == "Identity" && node.inputs.size() == 1 && node.outputs.size() == 1 &&
        StringRef(node.outputs[0]).starts_with("onnx::") && model.initializer(node.inputs[0]))
      tensorOf[node.outputs[0]] = node.inputs[0];
  if (tensorOf.empty())
    return;
  auto isOutput = [&](StringRef value) {
    return llvm::any_of(model.outputs, [&](const GraphValue &output) { return output.name == value; });
  };
  llvm::erase_if(model.nodes, [&](const Node &node) {
    return node.op == "Identity" && tensorOf.contains(node.outputs[0]) && !isOutput(node.outputs[0]);
  });
  for (Node &node : model.nodes)
    for (std::string &input : node.inputs)
      if (auto found = tensorOf.find(input); found != tensorOf.end())
        input = found->second;
  model.indexProducers();
}

} // namespace ztc::importer
