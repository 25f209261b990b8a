// Byte offsets inside a serialised ONNX model, from the protobuf wire format alone: a parsed message no longer knows
// them.
#include "frontends/onnx/Model.h"
#include "frontends/onnx/WireFormat.h"

using llvm::StringRef;

namespace ztc::importer {
namespace {

using Ranges = llvm::StringMap<std::pair<uint64_t, uint64_t>>;

constexpr unsigned kMostBranches = 32;

void addTensor(StringRef file, const FieldWalk &initializer, Ranges &found) {
  StringRef name;
  std::pair<uint64_t, uint64_t> range{0, 0};
  for (FieldWalk tensor(file, initializer.begin, initializer.stop()); tensor.next();) {
    if (tensor.isMessage && tensor.field == onnx_field::kTensorName)
      name = tensor.payload();
    if (tensor.isMessage && tensor.field == onnx_field::kTensorRawData)
      range = {tensor.begin, tensor.stop() - tensor.begin};
  }
  if (range.second)
    found.try_emplace(name, range);
}

/// The graph's own tensors, then those of branches in the order of the nodes: a name that is free belongs to the first,
/// as `InlineBranches` has it.
void addGraph(StringRef file, uint64_t begin, uint64_t end, unsigned depth, Ranges &found) {
  for (FieldWalk graph(file, begin, end); graph.next();)
    if (graph.field == onnx_field::kGraphInitializer && graph.isMessage)
      addTensor(file, graph, found);
  for (FieldWalk graph(file, begin, end); depth < kMostBranches && graph.next();) {
    if (graph.field != onnx_field::kGraphNode || !graph.isMessage)
      continue;
    bool isIf = false;
    for (FieldWalk node(file, graph.begin, graph.stop()); node.next();)
      isIf |= node.field == onnx_field::kNodeOp && node.isMessage && node.payload() == "If";
    for (FieldWalk node(file, graph.begin, graph.stop()); isIf && node.next();)
      if (node.field == onnx_field::kNodeAttribute && node.isMessage)
        for (FieldWalk attribute(file, node.begin, node.stop()); attribute.next();)
          if (attribute.field == onnx_field::kAttributeGraph && attribute.isMessage)
            addGraph(file, attribute.begin, attribute.stop(), depth + 1, found);
  }
}

} // namespace

Ranges findRawData(StringRef file) {
  Ranges found;
  for (FieldWalk model(file, 0, file.size()); model.next();)
    if (model.field == onnx_field::kModelGraph && model.isMessage)
      addGraph(file, model.begin, model.stop(), 0, found);
  return found;
}

} // namespace ztc::importer
