#include "frontends/onnx/ScanModel.h"
#include "frontends/onnx/WireFormat.h"

using llvm::StringRef;

namespace ztc::importer {
namespace {

/// An entry of external_data.
void scanEntry(StringRef message, FileTensor &tensor) {
  StringRef key, value;
  for (FieldWalk walk(message, 0, message.size()); walk.next();)
    if (walk.isMessage)
      (walk.field == onnx_field::kEntryKey ? key : value) = walk.payload();
  if (key == "location")
    tensor.location = value.str();
  else if (key == "offset")
    (void)value.getAsInteger(10, tensor.offset);
}

void scanDimensions(const FieldWalk &walk, Shape &shape) {
  if (!walk.isMessage) {
    shape.push_back(int64_t(walk.number));
    return;
  }
  StringRef packed = walk.payload();
  for (uint64_t position = 0; position < packed.size();) {
    uint64_t value;
    (void)readVarint(packed, position, packed.size(), value);
    shape.push_back(int64_t(value));
  }
}

/// The tensor of a Constant node's attribute `value`.
bool scanAttribute(StringRef message, FileTensor &tensor) {
  StringRef name, value;
  for (FieldWalk walk(message, 0, message.size()); walk.next();)
    if (walk.isMessage && walk.field == onnx_field::kAttributeName)
      name = walk.payload();
    else if (walk.isMessage && walk.field == onnx_field::kAttributeTensor)
      value = walk.payload();
  return name == "value" && scanTensor(value, tensor);
}

void scanNode(StringRef message, FileScan &scan) {
  std::vector<std::string> inputs, outputs;
  std::optional<FileTensor> constant;
  for (FieldWalk walk(message, 0, message.size()); walk.next();) {
    if (!walk.isMessage)
      continue;
    if (walk.field == onnx_field::kNodeInput)
      inputs.push_back(walk.payload().str());
    else if (walk.field == onnx_field::kNodeOutput)
      outputs.push_back(walk.payload().str());
    else if (FileTensor tensor; walk.field == onnx_field::kNodeAttribute && scanAttribute(walk.payload(), tensor))
      constant = std::move(tensor);
  }
  for (const std::string &output : outputs)
    scan.values.insert(output);
  if (outputs.empty())
    return;
  if (inputs.empty() && constant) {
    constant->name = outputs[0];
    constant->isConstant = true;
    scan.tensorOf[outputs[0]] = scan.tensors.size();
    scan.tensors.push_back(std::move(*constant));
  }
  scan.inputsOf[outputs[0]] = std::move(inputs);
}

} // namespace

uint64_t FileTensor::bytes() const {
  uint64_t bits = elementBits(type);
  for (int64_t size : shape)
    bits *= uint64_t(size);
  return (bits + 7) / 8;
}

bool scanTensor(StringRef message, FileTensor &tensor) {
  FieldWalk walk(message, 0, message.size());
  while (walk.next())
    switch (walk.field) {
    case onnx_field::kTensorDims:
      scanDimensions(walk, tensor.shape);
      break;
    case onnx_field::kTensorType:
      tensor.type = ElementType(int(walk.number));
      break;
    case onnx_field::kTensorName:
      tensor.name = walk.payload().str();
      break;
    case onnx_field::kTensorExternal:
      scanEntry(walk.payload(), tensor);
      break;
    case onnx_field::kTensorLocation:
      tensor.isExternal = walk.number == 1;
      break;
    default: // its other fields are the data
      break;
    }
  return walk.isAtEnd();
}

bool scanModel(StringRef file, FileScan &scan) {
  bool hasGraph = false;
  FieldWalk model(file, 0, file.size());
  while (model.next()) {
    if (model.field != onnx_field::kModelGraph || !model.isMessage)
      continue;
    hasGraph = true;
    FieldWalk graph(file, model.begin, model.stop());
    while (graph.next()) {
      if (!graph.isMessage)
        continue;
      if (graph.field == onnx_field::kGraphNode)
        scanNode(graph.payload(), scan);
      if (graph.field != onnx_field::kGraphInitializer)
        continue;
      FileTensor tensor;
      if (!scanTensor(graph.payload(), tensor))
        return false;
      scan.values.insert(tensor.name);
      scan.tensorOf[tensor.name] = scan.tensors.size();
      scan.tensors.push_back(std::move(tensor));
    }
    if (!graph.isAtEnd())
      return false;
  }
  return hasGraph && model.isAtEnd();
}

} // namespace ztc::importer
