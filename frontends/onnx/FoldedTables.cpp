#include "frontends/onnx/FoldedTables.h"
#include "frontends/onnx/HostTensor.h"
#include "runtime/Format/Safetensors.h"
#include "llvm/ADT/STLExtras.h"
#include <optional>

using llvm::StringRef;

namespace ztc::importer {
namespace {

/// Rows of a table that a checkpoint has.
struct Rows {
  std::string table; ///< its name in the graph's own terms
  int64_t tableRows = 0, first = 0;
  bool byValue = true;
};

ElementType elementTypeOf(StringRef safetensorsName) {
  for (ElementType type : {ElementType::F32, ElementType::F16, ElementType::BF16, ElementType::F64})
    if (safetensorsName == elementName(type))
      return type;
  return ElementType::Undefined;
}

/// Elements as doubles; empty where they are no floats.
std::vector<double> elementsOf(ElementType type, llvm::ArrayRef<int64_t> shape, StringRef bytes) {
  if (!isFloat(type))
    return {};
  Initializer initializer;
  initializer.type = type;
  initializer.shape.assign(shape.begin(), shape.end());
  if (uint64_t(initializer.count()) * elementBytes(type) != bytes.size())
    return {};
  return HostTensor::fromBytes(initializer, bytes).reals;
}

/// The exporter's own words for the result of a lookup that it folded: dynamo's node names, TorchScript's paths.
bool isCalledLookup(StringRef name) {
  return name.starts_with("embedding") || (name.starts_with("/") && name.contains("/Gather"));
}

class TableFinder {
public:
  TableFinder(Model &model, int64_t positionLimit, std::optional<SafetensorsCollection> files)
      : model(model), positionLimit(positionLimit), files(std::move(files)) {}

  /// The rows that a constant (1, S, H) or (S, H) holds.
  std::optional<Rows> find(const Initializer &constant) const {
    std::string error;
    int64_t width = constant.shape.back(), count = constant.count() / width;
    std::vector<double> wanted = elementsOf(constant.type, constant.shape, model.bytesOf(constant, error));
    std::vector<Rows> byLimit;
    for (const auto &file : files->files())
      for (const SafetensorsTensor &tensor : file->tensors()) {
        if (tensor.shape.size() != 2 || tensor.shape[1] != width || tensor.shape[0] < count)
          continue;
        auto data = file->data(tensor);
        StringRef bytes(reinterpret_cast<const char *>(data.data()), data.size());
        if (std::optional<int64_t> first = findRows(tensor, bytes, constant, wanted))
          return Rows{graphName(tensor.name), tensor.shape[0], *first, true};
        if (positionLimit == tensor.shape[0] && isUnread(tensor.name))
          byLimit.push_back({graphName(tensor.name), tensor.shape[0], 0, false});
      }
    if (byLimit.size() == 1 && isCalledLookup(constant.name))
      return byLimit.front();
    return std::nullopt;
  }

private:
  std::optional<int64_t> findRows(const SafetensorsTensor &tensor, StringRef bytes, const Initializer &constant,
                                  llvm::ArrayRef<double> wanted) const {
    ElementType type = elementTypeOf(tensor.typeName);
    int64_t width = tensor.shape[1];
    uint64_t rowBytes = uint64_t(width) * elementBytes(type);
    auto row = [&](int64_t r) { // as the graph stores it
      std::vector<double> elements = elementsOf(type, {width}, bytes.substr(uint64_t(r) * rowBytes, rowBytes));
      for (double &element : elements)
        element = roundTo(element, constant.type);
      return elements;
    };
    if (wanted.empty() || type == ElementType::Undefined)
      return std::nullopt;
    int64_t count = int64_t(wanted.size()) / width;
    for (int64_t first = 0; first + count <= tensor.shape[0]; ++first) {
      int64_t equal = 0;
      while (equal < count && llvm::ArrayRef<double>(row(first + equal)) == wanted.slice(equal * width, width))
        ++equal;
      if (equal == count)
        return first;
    }
    return std::nullopt;
  }

  /// The exporter's signature may have a wrapper's prefix in front of the checkpoint's name.
  std::string graphName(StringRef name) const {
    for (const auto &entry : model.parameterTargets)
      if (entry.second == name || StringRef(entry.second).ends_with(("." + name).str()))
        return entry.second;
    return name.str();
  }

  bool isUnread(StringRef name) const { return !model.initializer(graphName(name)); }

  Model &model;
  int64_t positionLimit;
  std::optional<SafetensorsCollection> files;
};

/// Constants (1, S, H) or (S, H) with more than one row that are added to something computed.
std::vector<const Initializer *> candidatesOf(const Model &model) {
  std::vector<const Initializer *> found;
  for (const Node &node : model.nodes) {
    if (node.op != "Add" || node.inputs.size() != 2)
      continue;
    for (unsigned i = 0; i < 2; ++i) {
      const Initializer *constant = model.initializer(node.inputs[i]);
      if (!constant || !model.producer(node.inputs[1 - i]) || !isFloat(constant->type))
        continue;
      llvm::ArrayRef<int64_t> shape = constant->shape;
      bool isTable = shape.size() == 2 || (shape.size() == 3 && shape[0] == 1);
      if (isTable && shape.back() > 1 && shape[shape.size() - 2] > 1 && !llvm::is_contained(found, constant))
        found.push_back(constant);
    }
  }
  return found;
}

/// Rows [first, first + count) of the table, in the constant's shape, for all who read the constant.
void replace(Model &model, const Initializer &constant, const Rows &rows) {
  int64_t count = constant.count() / constant.shape.back();
  std::string value = constant.name + "/rows";
  Initializer table;
  table.name = rows.table;
  table.type = constant.type;
  table.shape = {rows.tableRows, constant.shape.back()};
  if (!model.initializer(table.name)) {
    model.initializers.push_back(table);
    model.initializerOf[table.name] = &model.initializers.back();
  }
  for (Node &node : model.nodes)
    for (std::string &input : node.inputs)
      if (input == constant.name)
        input = value;
  Node slice, reshape;
  slice.name = value + "/slice";
  slice.op = slice.signature = "Slice";
  slice.inputs = {table.name, model.addIntegers(value + "/start", {rows.first}).name,
                  model.addIntegers(value + "/end", {rows.first + count}).name,
                  model.addIntegers(value + "/axis", {0}).name};
  slice.outputs = {value + "/slice"};
  reshape.name = value;
  reshape.op = reshape.signature = "Reshape";
  reshape.inputs = {slice.outputs[0], model.addIntegers(value + "/shape", constant.shape).name};
  reshape.outputs = {value};
  model.nodes.insert(model.nodes.begin(), {slice, reshape});
  model.indexProducers();
}

} // namespace

bool restoreFoldedTables(Model &model, const std::string &weights, int64_t positionLimit,
                         std::vector<std::string> &notes, std::string &error) {
  std::optional<SafetensorsCollection> files;
  if (!weights.empty())
    if (StatusOr<SafetensorsCollection> opened = SafetensorsCollection::open(weights); opened.isOk())
      files = std::move(*opened);
  bool hasFiles = files.has_value();
  TableFinder finder(model, positionLimit, std::move(files));
  for (const Initializer *constant : candidatesOf(model)) {
    std::optional<Rows> rows = hasFiles ? finder.find(*constant) : std::nullopt;
    if (rows) {
      int64_t count = constant->count() / constant->shape.back();
      notes.push_back("'" + constant->name + "' in the graph is rows " + std::to_string(rows->first) + " to " +
                      std::to_string(rows->first + count - 1) + " of " + rows->table +
                      (rows->byValue ? ", by value" : ", by the position limit of config.json") +
                      ": trained as this table");
      replace(model, *constant, *rows);
    } else if (isCalledLookup(constant->name)) {
      error = "rows of a learned table were folded into the constant '" + constant->name + "'" +
              (hasFiles ? ", and no table of " + weights + " has them" : "") + ": it would not be trained. " +
              (hasFiles ? "Export" : "Give the checkpoint with --weights, or export") +
              " with optimize=False (dynamo) or do_constant_folding=False, or with free batch and sequence";
      return false;
    }
  }
  return true;
}

} // namespace ztc::importer
