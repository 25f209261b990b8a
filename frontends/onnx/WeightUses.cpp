#include "frontends/onnx/WeightUses.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"
#include <algorithm>

using llvm::StringRef;

namespace ztc::importer {

/// Ops that hand an initializer on as it is, or turned.
static bool keepsElements(const Node &node) {
  return llvm::is_contained({"Transpose", "Cast", "CastLike", "Identity"}, node.op);
}

const Initializer *weightOf(const Model &model, StringRef value, Shape &shape) {
  llvm::SmallVector<const Node *> way;
  while (const Node *node = model.producer(value)) {
    if (!keepsElements(*node) || way.size() > 8)
      return nullptr;
    way.push_back(node);
    value = node->inputs[0];
  }
  const Initializer *initializer = model.initializer(value);
  if (!initializer)
    return nullptr;
  shape = initializer->shape;
  for (const Node *node : llvm::reverse(way)) {
    if (node->op != "Transpose")
      continue;
    llvm::ArrayRef<int64_t> permutation = node->integers("perm");
    Shape turned(shape.rbegin(), shape.rend());
    for (size_t i = 0; i < permutation.size() && i < shape.size(); ++i)
      if (permutation[i] >= 0 && permutation[i] < int64_t(shape.size()))
        turned[i] = shape[permutation[i]];
    shape = turned;
  }
  return initializer;
}

int64_t tableRows(const Model &model, const Node &node) {
  Shape shape;
  const Initializer *table = node.op == "Gather" && node.inputs.size() == 2 && node.integer("axis", 0) == 0
                                 ? weightOf(model, node.inputs[0], shape)
                                 : nullptr;
  return table && isFloat(table->type) && shape.size() == 2 ? shape[0] : 0;
}

/// Columns of the weight that a product with data has; 0 where the node is not such a product.
static int64_t productColumns(const Model &model, const Node &node) {
  bool isProduct = node.op == "MatMul" || node.op == "Gemm" || node.op == "FusedMatMul" || node.op == "FusedGemm";
  Shape shape;
  if (!isProduct || node.inputs.size() < 2 || !weightOf(model, node.inputs[1], shape) || shape.size() != 2)
    return 0;
  return shape[node.integer("transB", 0) ? 0 : 1];
}

int64_t columnsOfLastProduct(const Model &model, StringRef output) {
  static const llvm::StringSet<> passes{"Cast",  "CastLike", "Identity", "Mul",    "Div",     "Add",
                                        "Sub",   "Tanh",     "Reshape",  "Slice",  "Squeeze", "Unsqueeze",
                                        "Where", "Clip",     "Flatten",  "Gather", "Min",     "Max"};
  llvm::SmallVector<StringRef> stack{output};
  llvm::StringSet<> seen;
  while (!stack.empty() && seen.size() < 64) {
    StringRef value = stack.pop_back_val();
    const Node *node = model.producer(value);
    if (!node || !seen.insert(value).second)
      continue;
    if (int64_t columns = productColumns(model, *node))
      return columns;
    if (!passes.contains(node->op))
      continue;
    bool isView = llvm::is_contained({"Reshape", "Slice", "Squeeze", "Unsqueeze", "Flatten", "Gather"}, node->op);
    for (size_t i = isView ? 1 : node->inputs.size(); i > 0; --i)
      stack.push_back(node->inputs[i - 1]);
  }
  return 0;
}

} // namespace ztc::importer
