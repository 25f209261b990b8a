#include "frontends/onnx/Ties.h"
#include "frontends/onnx/WeightForm.h"
#include <cstring>

using namespace mlir;

namespace ztc::importer {
namespace {

bool areEqual(llvm::StringRef a, bool transposedA, llvm::StringRef b, bool transposedB, int64_t rows, int64_t columns,
              unsigned elementSize) {
  if (transposedA == transposedB)
    return a == b;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) {
      int64_t straight = (r * columns + c) * elementSize, turned = (c * rows + r) * elementSize;
      if (std::memcmp(a.data() + (transposedA ? turned : straight), b.data() + (transposedB ? turned : straight),
                      elementSize) != 0)
        return false;
    }
  return true;
}

/// Whether two tensors are the same bytes of one file, which need not be there.
bool areOnePlace(const Initializer &a, const Initializer &b) {
  return a.isExternal && b.isExternal && a.location == b.location && a.offset == b.offset && a.length == b.length;
}

template <typename OpTy> bool isUsedBy(mlir::Value value) {
  return llvm::any_of(value.getUsers(), [](Operation *user) { return isa<OpTy>(user); });
}

} // namespace

void restoreTies(Emitter &emitter, const Model &model, bool configTies, ImportReport &report) {
  std::vector<Parameter> &parameters = emitter.parameters();
  for (size_t t = 0; t < parameters.size(); ++t) {
    if (!isUsedBy<graph::EmbeddingOp>(parameters[t].argument))
      continue;
    for (size_t h = 0; h < parameters.size(); ++h) {
      Parameter &table = parameters[t], &head = parameters[h];
      if (h == t || head.argument.getType() != table.argument.getType() ||
          head.initializer->type != table.initializer->type ||
          !(isUsedBy<graph::MatmulOp>(head.argument) || isUsedBy<graph::TransposeOp>(head.argument)))
        continue;
      llvm::StringRef a = viewOf(model, *table.initializer).bytes, b = viewOf(model, *head.initializer).bytes;
      const bool isKnown = !a.empty() && !b.empty();
      const bool isTied = isKnown ? areEqual(a, table.transposed, b, head.transposed, shapeOf(table.argument)[0],
                                             shapeOf(table.argument)[1], elementBytes(table.initializer->type))
                          : areOnePlace(*table.initializer, *head.initializer) ? table.transposed == head.transposed
                                                                               : configTies;
      if (!isTied)
        continue;
      report.notes.push_back(head.name + " is a copy of " + table.name + " in the graph: tied again");
      table.tied.push_back(head.name);
      llvm::append_range(table.places, head.places);
      unsigned index = head.argument.getArgNumber();
      head.argument.replaceAllUsesWith(table.argument);
      (void)emitter.function().eraseArgument(index);
      parameters.erase(parameters.begin() + h);
      return;
    }
  }
}

} // namespace ztc::importer
