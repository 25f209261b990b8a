#include "frontends/onnx/SizeAdvice.h"
#include "llvm/ADT/STLExtras.h"

using llvm::StringRef;

namespace ztc::importer {

int64_t fixedByLogits(const Model &model, const Liveness &liveness, unsigned dimension) {
  const GraphValue &logits = model.outputs[0];
  for (const GraphValue &input : model.inputs)
    if (liveness.roles.lookup(input.name).role == InputRole::Tokens && input.shape[dimension] < 0)
      return logits.hasShape && logits.shape.size() == 3 ? logits.shape[dimension] : -1;
  return -1;
}

bool isAboutSizes(StringRef message) {
  return message.contains("do not broadcast") || message.contains("changes the number of elements") ||
         message.contains("is not logits of shape");
}

std::string reasonOfSizes(const Model &model, const Liveness &liveness, Binding binding) {
  for (unsigned dimension : {0u, 1u}) {
    const int64_t size = fixedByLogits(model, liveness, dimension);
    if (size < 0 || size == (dimension ? binding.sequence : binding.batch))
      continue;
    const std::string number = std::to_string(size);
    return std::string("; the exporter fixed the ") + (dimension ? "sequence" : "batch") + " at " + number +
           ", as output '" + model.outputs[0].name + "' says, though the tokens leave it free: give --" +
           (dimension ? "seq=" + number : "batch=" + number + ", with ztc-run --accumulate for larger steps,") +
           " or export again with an example whose sizes are all above 1";
  }
  bool isTorchScript = StringRef(model.exporter).starts_with("pytorch") && model.parameterTargets.empty() &&
                       llvm::none_of(model.nodes, [](const Node &node) { return !node.scopes.empty(); });
  return isTorchScript
             ? "; PyTorch's older exporter writes wrong sizes into some files: if onnxruntime refuses it too, "
               "export with dynamo=True, or compile the Hugging Face folder itself"
             : "";
}

} // namespace ztc::importer
