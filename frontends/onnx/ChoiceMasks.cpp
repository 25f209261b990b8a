#include "frontends/onnx/ChoiceMasks.h"
#include "frontends/onnx/HostTensor.h"

using llvm::StringRef;

namespace ztc::importer {

std::optional<std::vector<int64_t>> integersOf(const Model &model, StringRef value) {
  const Initializer *initializer = model.initializer(value);
  std::string ignored;
  StringRef bytes = initializer && !isFloat(initializer->type) ? model.bytesOf(*initializer, ignored) : StringRef();
  if (bytes.empty())
    return std::nullopt;
  const HostTensor tensor = HostTensor::fromBytes(*initializer, bytes);
  std::vector<int64_t> numbers;
  for (int64_t i = 0; i < tensor.count(); ++i)
    numbers.push_back(tensor.integer(i));
  return numbers;
}

std::optional<std::vector<int64_t>> axesOf(const Model &model, const Node &node, unsigned input) {
  if (node.hasInput(input))
    return integersOf(model, node.inputs[input]);
  llvm::ArrayRef<int64_t> axes = node.integers("axes");
  return axes.empty() ? std::nullopt : std::optional(std::vector<int64_t>(axes.begin(), axes.end()));
}

std::optional<int64_t> choicesFromEnd(const Model &model, StringRef mask) {
  const Node *node = model.producer(mask);
  if (!node)
    return std::nullopt;
  if (node->op == "TopK")
    return node->outputs.size() > 1 && mask == node->outputs[1] && node->integer("axis", -1) == -1
               ? std::optional<int64_t>(0)
               : std::nullopt;
  if (node->op == "ArgMax") // the one choice, in a dimension of its own
    return node->integer("keepdims", 1) != 0 && node->integer("axis", 0) == -1 ? std::optional<int64_t>(0)
                                                                               : std::nullopt;
  auto ofInput = [&](unsigned input) { return choicesFromEnd(model, node->inputs[input]); };
  if (node->op == "Equal") {
    for (unsigned side : {0u, 1u}) {
      const Initializer *other = model.initializer(node->inputs[1 - side]);
      const std::optional<int64_t> behind = other ? ofInput(side) : std::nullopt;
      // One number for all K choices: of a list of numbers, another for each would do for two of a row.
      if (behind && (other->count() == 1 || (*behind > 0 && other->shape.size() == 1)))
        return behind;
    }
    return std::nullopt;
  }
  if (node->op == "Cast" || node->op == "Identity")
    return ofInput(0);
  if (node->op == "OneHot" || node->op == "Unsqueeze") {
    const std::optional<std::vector<int64_t>> axes =
        node->op == "OneHot" ? std::vector<int64_t>{node->integer("axis", -1)} : axesOf(model, *node, 1);
    std::optional<int64_t> before = ofInput(0);
    return before && axes && axes->size() == 1 && (*axes)[0] == -1 ? std::optional(*before + 1) : std::nullopt;
  }
  if (node->op == "Transpose") {
    std::optional<int64_t> before = ofInput(0);
    llvm::ArrayRef<int64_t> order = node->integers("perm");
    const auto rank = int64_t(order.size());
    const auto *place = before ? llvm::find(order, rank - 1 - *before) : order.end();
    return place == order.end() ? std::nullopt : std::optional<int64_t>(rank - 1 - (place - order.begin()));
  }
  if (node->op == "Gather" && node->integer("axis", 0) == 0) // one expert of the first dimension
    return model.initializer(node->inputs[1]) && model.initializer(node->inputs[1])->shape.empty() ? ofInput(0)
                                                                                                   : std::nullopt;
  return std::nullopt;
}

} // namespace ztc::importer
