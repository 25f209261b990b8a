// Byte offsets inside a serialised ONNX model, from the protobuf wire format alone: a parsed message no longer knows
// them.
#include "frontends/onnx/Model.h"
#include "frontends/onnx/WireFormat.h"

using llvm::StringRef;

namespace ztc::importer {

llvm::StringMap<std::pair<uint64_t, uint64_t>> findRawData(StringRef file) {
  llvm::StringMap<std::pair<uint64_t, uint64_t>> found;
  for (FieldWalk model(file, 0, file.size()); model.next();) {
    if (model.field != onnx_field::kModelGraph || !model.isMessage)
      continue;
    for (FieldWalk graph(file, model.begin, model.stop()); graph.next();) {
      if (graph.field != onnx_field::kGraphInitializer || !graph.isMessage)
        continue;
      StringRef name;
      std::pair<uint64_t, uint64_t> range{0, 0};
      for (FieldWalk tensor(file, graph.begin, graph.stop()); tensor.next();) {
        if (tensor.isMessage && tensor.field == onnx_field::kTensorName)
          name = file.slice(tensor.begin, tensor.stop());
        if (tensor.isMessage && tensor.field == onnx_field::kTensorRawData)
          range = {tensor.begin, tensor.stop() - tensor.begin};
      }
      if (range.second)
        found[name] = range;
    }
  }
  return found;
}

} // namespace ztc::importer
