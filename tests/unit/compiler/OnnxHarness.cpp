#include "OnnxHarness.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Dialect/Graph/Roles.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "runtime/Format/Safetensors.h"
#include <cstring>
#include <fstream>
#include <unistd.h>

using namespace mlir;

namespace ztc::test {
namespace {

std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7)
    bytes += char((value & 0x7f) | 0x80);
  return bytes + char(value);
}
std::string number(unsigned field, int64_t value) {
  return varint(field << 3) + varint(uint64_t(value));
}
std::string message(unsigned field, const std::string &bytes) {
  return varint(field << 3 | 2) + varint(bytes.size()) + bytes;
}

std::string shapeProto(const std::vector<OnnxWriter::Dimension> &shape) {
  std::string dimensions;
  for (const OnnxWriter::Dimension &size : shape)
    dimensions += message(1, std::holds_alternative<int64_t>(size) ? number(1, std::get<int64_t>(size))
                                                                   : message(2, std::get<std::string>(size)));
  return dimensions;
}

std::string attributeProto(const std::string &name, const OnnxWriter::Attribute &value) {
  std::string bytes = message(1, name);
  if (auto *integer = std::get_if<int64_t>(&value))
    return bytes + number(3, *integer) + number(20, 2);
  if (auto *text = std::get_if<std::string>(&value))
    return bytes + message(4, *text) + number(20, 3);
  if (auto *list = std::get_if<std::vector<int64_t>>(&value)) {
    for (int64_t entry : *list)
      bytes += number(8, entry);
    return bytes + number(20, 7);
  }
  if (auto *graph = std::get_if<OnnxWriter::Graph>(&value))
    return bytes + message(6, graph->bytes) + number(20, 5);
  float real = std::get<float>(value);
  std::string raw(4, '\0');
  std::memcpy(raw.data(), &real, 4);
  return bytes + varint(2 << 3 | 5) + raw + number(20, 1);
}

template <typename Stored> std::string rawBytes(const std::vector<Stored> &values) {
  std::string raw(values.size() * sizeof(Stored), '\0');
  std::memcpy(raw.data(), values.data(), raw.size());
  return raw;
}

} // namespace

OnnxWriter::OnnxWriter(int64_t opset) : opset(opset) {}

void OnnxWriter::value(unsigned field, const std::string &name, importer::ElementType type,
                       const std::vector<Dimension> &shape) {
  std::string tensorType = number(1, int(type)) + message(2, shapeProto(shape));
  graph += message(field, message(1, name) + message(2, message(1, tensorType)));
}
void OnnxWriter::input(const std::string &name, importer::ElementType type, const std::vector<Dimension> &shape) {
  value(11, name, type, shape);
}
void OnnxWriter::output(const std::string &name, importer::ElementType type, const std::vector<Dimension> &shape) {
  value(12, name, type, shape);
}

void OnnxWriter::tensor(const std::string &name, const std::vector<int64_t> &shape, importer::ElementType type,
                        const std::string &raw) {
  std::string bytes;
  for (int64_t size : shape)
    bytes += number(1, size);
  graph += message(5, bytes + number(2, int(type)) + message(8, name) + message(9, raw));
}
void OnnxWriter::floats(const std::string &name, const std::vector<int64_t> &shape, const std::vector<float> &values) {
  tensor(name, shape, importer::ElementType::F32, rawBytes(values));
}
void OnnxWriter::integers(const std::string &name, const std::vector<int64_t> &shape,
                          const std::vector<int64_t> &values) {
  tensor(name, shape, importer::ElementType::I64, rawBytes(values));
}
void OnnxWriter::booleans(const std::string &name, const std::vector<int64_t> &shape, const std::vector<bool> &values) {
  tensor(name, shape, importer::ElementType::Bool, std::string(values.begin(), values.end()));
}
void OnnxWriter::external(const std::string &name, const std::vector<int64_t> &shape, const std::string &location,
                          int64_t offset) {
  std::string bytes;
  int64_t length = 4;
  for (int64_t size : shape) {
    bytes += number(1, size);
    length *= size;
  }
  auto entry = [](const std::string &key, const std::string &text) {
    return message(13, message(1, key) + message(2, text));
  };
  graph +=
      message(5, bytes + number(2, 1) + message(8, name) + entry("location", location) +
                     entry("offset", std::to_string(offset)) + entry("length", std::to_string(length)) + number(14, 1));
}

void OnnxWriter::node(const std::string &op, const std::vector<std::string> &inputs,
                      const std::vector<std::string> &outputs,
                      const std::vector<std::pair<std::string, Attribute>> &attributes, const std::string &scope,
                      const std::string &name, const std::string &fx) {
  std::string bytes;
  for (const std::string &input : inputs)
    bytes += message(1, input);
  for (const std::string &output : outputs)
    bytes += message(2, output);
  size_t colons = op.find("::");
  bytes += message(3, name.empty() ? "node_" + std::to_string(nodes++) : name) +
           message(4, colons == std::string::npos ? op : op.substr(colons + 2));
  if (colons != std::string::npos)
    bytes += message(7, op.substr(0, colons));
  for (const auto &[key, attribute] : attributes)
    bytes += message(5, attributeProto(key, attribute));
  if (!scope.empty())
    bytes += message(9, message(1, "pkg.torch.onnx.name_scopes") + message(2, "['', '" + scope + "', 'op']"));
  if (!fx.empty())
    bytes += message(9, message(1, "pkg.torch.onnx.fx_node") + message(2, fx));
  graph += message(1, bytes);
}

void OnnxWriter::signature(const std::vector<std::string> &parameters) {
  std::string lines;
  for (const std::string &name : parameters)
    lines += "p_" + std::to_string(lines.size()) + ": PARAMETER target='" + name + "'\n";
  graph += message(16, message(1, "pkg.torch.export.ExportedProgram.graph_signature") + message(2, lines));
}

std::string OnnxWriter::bytes() const {
  return number(1, 8) + message(8, message(1, "") + number(2, opset)) +
         message(8, message(1, "com.microsoft") + number(2, 1)) + message(7, graph + message(2, "test"));
}

OnnxWriter::Graph OnnxWriter::asGraph() const {
  return {graph + message(2, "branch")};
}

TemporaryFolder::TemporaryFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "ztc-onnx-XXXXXX").string();
  path = mkdtemp(pattern.data());
}
TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}
std::string TemporaryFolder::write(const std::string &name, const std::string &bytes) const {
  std::ofstream(path / name, std::ios::binary) << bytes;
  return (path / name).string();
}

int Imported::argument(const std::string &name) {
  func::FuncOp function = forward();
  for (unsigned i = 0; function && i < function.getNumArguments(); ++i)
    if (graph::argString(function, i, graph::kName) == name)
      return int(i);
  return -1;
}

Imported import(const std::string &path, const ImportOptions &options) {
  Imported imported;
  imported.context = std::make_unique<MLIRContext>();
  ScopedDiagnosticHandler handler(imported.context.get(), [&](Diagnostic &diagnostic) {
    imported.errors += diagnostic.str() + "\n";
    ++imported.errorCount;
    return success();
  });
  FailureOr<OwningOpRef<ModuleOp>> module = importOnnx(*imported.context, path, options, imported.report);
  if (succeeded(module) && succeeded(verify(**module)))
    imported.module = std::move(*module);
  return imported;
}

std::optional<Tensor> loadParameter(func::FuncOp function, unsigned index) {
  auto source = function.getArgAttrOfType<DictionaryAttr>(index, graph::kSource);
  if (!source || source.getAs<StringAttr>("type").getValue() != "F32")
    return std::nullopt;
  auto integer = [&](StringRef key) { return source.getAs<IntegerAttr>(key).getInt(); };
  std::ifstream file(source.getAs<StringAttr>("path").str(), std::ios::binary);
  std::vector<float> values(integer("length") / 4);
  file.seekg(integer("offset"));
  file.read(reinterpret_cast<char *>(values.data()), integer("length"));
  Tensor tensor(cast<RankedTensorType>(function.getArgument(index).getType()));
  if (!file || int64_t(values.size()) != tensor.count())
    return std::nullopt;
  int64_t columns = tensor.rank() == 2 ? tensor.shape[1] : 1, rows = tensor.count() / columns;
  bool transposed = source.getAs<BoolAttr>("transpose").getValue();
  const double shift = source.getAs<FloatAttr>("shift").getValueAsDouble();
  for (int64_t i = 0; i < tensor.count(); ++i)
    tensor.reals[i] = (transposed ? values[i % columns * rows + i / columns] : values[i]) + shift;
  return tensor;
}

std::optional<Tensor> forwardLogits(Imported &imported, const std::vector<int64_t> &tokens, Precision precision) {
  func::FuncOp function = imported.forward();
  if (!function)
    return std::nullopt;
  SmallVector<Tensor> arguments;
  arguments.emplace_back(cast<RankedTensorType>(function.getArgumentTypes()[0]));
  if (arguments[0].count() != int64_t(tokens.size()))
    return std::nullopt;
  arguments[0].integers = tokens;
  for (unsigned i = 1; i < function.getNumArguments(); ++i) {
    std::optional<Tensor> parameter = loadParameter(function, i);
    if (!parameter)
      return std::nullopt;
    arguments.push_back(std::move(*parameter));
  }
  InterpreterOptions options;
  options.precision = precision;
  FailureOr<SmallVector<Tensor>> results = interpret(function, arguments, options);
  if (failed(results))
    return std::nullopt;
  return (*results)[0];
}

std::optional<Tensor> readTensor(const std::string &path, const std::string &name, MLIRContext &context) {
  StatusOr<SafetensorsFile> file = SafetensorsFile::open(path);
  const SafetensorsTensor *found = file.isOk() ? file->find(name) : nullptr;
  if (!found)
    return std::nullopt;
  Builder builder(&context);
  Tensor tensor(found->shape, found->typeName == "I64" ? Type(builder.getI64Type()) : Type(builder.getF32Type()));
  const std::byte *bytes = file->data(*found).data();
  for (int64_t i = 0; i < tensor.count(); ++i) {
    if (tensor.isReal()) {
      float value;
      std::memcpy(&value, bytes + 4 * i, 4);
      tensor.reals[i] = value;
    } else {
      std::memcpy(&tensor.integers[i], bytes + 8 * i, 8);
    }
  }
  return tensor;
}

} // namespace ztc::test
