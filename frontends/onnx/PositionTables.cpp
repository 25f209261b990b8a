#include "frontends/onnx/PositionTables.h"
#include "frontends/onnx/HostTensor.h"
#include "llvm/ADT/STLExtras.h"
#include <cmath>

using llvm::StringRef;

namespace ztc::importer {
namespace {

/// (1, P, H) or (P, H), more than one row and column.
bool isTableOfRows(const Initializer &initializer) {
  llvm::ArrayRef<int64_t> shape = initializer.shape;
  bool isTable = shape.size() == 2 || (shape.size() == 3 && shape[0] == 1);
  return isTable && shape.back() > 1 && shape[shape.size() - 2] > 1;
}

/// The initializer whose rows this value is, taken by constant positions; null for none.
const Initializer *tableOf(const Model &model, StringRef value) {
  while (const Node *node = model.producer(value)) {
    if (!llvm::is_contained({"Slice", "Gather", "Unsqueeze", "Reshape", "Cast", "Identity", "Expand"}, node->op))
      return nullptr;
    value = node->inputs[0];
  }
  return model.initializer(value);
}

} // namespace

bool hasOwnName(const Initializer &initializer) {
  StringRef name = initializer.name;
  return !name.starts_with("/") && !name.starts_with("onnx::") && !name.starts_with("val_");
}

bool holdsAngles(const Model &model, const Initializer &initializer) {
  std::string unreadable;
  StringRef bytes = model.bytesOf(initializer, unreadable);
  const int64_t width = initializer.shape.empty() ? 0 : initializer.shape.back(), pairs = width / 2;
  if (bytes.empty() || !pairs || width % 2 || initializer.count() <= 2) // any two numbers are on a circle
    return false;
  HostTensor tensor = HostTensor::fromBytes(initializer, bytes);
  auto squares = [&](int64_t a, int64_t b) {
    return tensor.real(a) * tensor.real(a) + tensor.real(b) * tensor.real(b);
  };
  const double neighbours = squares(0, 1), halves = squares(0, pairs);
  bool areNeighbours = neighbours > 0, areHalves = halves > 0;
  for (int64_t row : {int64_t(0), tensor.count() - width})
    for (int64_t i = 0; i < pairs; ++i) {
      areNeighbours &= std::abs(squares(row + 2 * i, row + 2 * i + 1) - neighbours) < 1e-2 * neighbours;
      areHalves &= std::abs(squares(row + i, row + i + pairs) - halves) < 1e-2 * halves;
    }
  return areNeighbours || areHalves;
}

bool isLookedUp(const Model &model, StringRef value) {
  for (const Node *node = model.producer(value); node; node = model.producer(node->inputs[0])) {
    const Initializer *table = model.initializer(node->inputs[0]);
    if (node->op == "Gather")
      return table && isFloat(table->type) && table->shape.size() == 2;
    if (node->op != "Add" && node->op != "Mul" && node->op != "Cast" && node->op != "Identity")
      return false;
    if (table) // the constant stands first
      return isLookedUp(model, node->inputs.back());
  }
  return false;
}

void addPositionTables(const Model &model, const Names &names, llvm::StringSet<> &parameters) {
  for (const Node &node : model.nodes) {
    if (node.op != "Add" || node.inputs.size() != 2)
      continue;
    for (unsigned i : {0u, 1u})
      if (const Initializer *table = tableOf(model, node.inputs[i]);
          table && isFloat(table->type) && isTableOfRows(*table) && hasOwnName(*table) &&
          names.kindOf(*table) != Names::Kind::Buffer && isLookedUp(model, node.inputs[1 - i]) &&
          !holdsAngles(model, *table))
        parameters.insert(table->name);
  }
}

} // namespace ztc::importer
