#include "frontends/onnx/FoldedTables.h"
#include "frontends/onnx/ConstantCore.h"
#include "frontends/onnx/HostTensor.h"
#include "frontends/onnx/PositionTables.h"
#include "runtime/Format/Safetensors.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"
#include <optional>

using llvm::StringRef;

namespace ztc::importer {
namespace {

/// What a constant holds of a tensor of the checkpoint: consecutive rows, or all of it.
struct TablePart {
  std::string tensor; ///< its name in the graph's own terms
  Shape shape;        ///< the tensor's
  Shape spread;       ///< the constant's, with 1 where it only repeats
  bool isRows = true;
  int64_t first = 0; ///< of the rows
  bool byValue = true;
};

ElementType elementTypeOf(StringRef safetensorsName) {
  for (ElementType type : {ElementType::F32, ElementType::F16, ElementType::BF16, ElementType::F64})
    if (safetensorsName == elementName(type))
      return type;
  return ElementType::Undefined;
}

/// Elements as doubles; empty where they are not floats.
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

/// (R, W) of a table, which may have been kept as (1, R, W); empty for another shape.
Shape tableShape(llvm::ArrayRef<int64_t> shape) {
  while (shape.size() > 2 && shape.front() == 1)
    shape = shape.drop_front();
  return shape.size() == 2 ? Shape(shape) : Shape();
}

/// A constant that data meet, and whether it is added to them.
struct TableCandidate {
  const Initializer *constant;
  bool isAdded = false;
  bool isAddedToLookup = false; ///< to rows that the tokens look up, as positions are
};

class SourceFinder {
public:
  SourceFinder(Model &model, int64_t positionLimit, std::optional<SafetensorsCollection> files)
      : model(model), positionLimit(positionLimit), files(std::move(files)) {}

  std::optional<TablePart> find(const TableCandidate &candidate) const {
    const Initializer &constant = *candidate.constant;
    std::optional<ConstantCore> core; // read when a shape fits
    std::vector<TablePart> byLimit;
    for (const auto &file : files->files())
      for (const SafetensorsTensor &tensor : file->tensors()) {
        Shape table = tableShape(llvm::ArrayRef<int64_t>(tensor.shape));
        bool mayBeRows = !isBuffer(tensor) && candidate.isAdded && !table.empty() && constant.shape.size() >= 2 &&
                         table[1] == constant.shape.back() && table[0] >= rowsOf(constant);
        bool mayBeSpread = isParameter(tensor) && isUnread(tensor.name) && hasDimensionsOf(constant, tensor);
        if (!mayBeRows && !mayBeSpread)
          continue;
        if (!core)
          core.emplace(constant.shape, valuesOf(constant));
        auto data = file->data(tensor);
        StringRef bytes(reinterpret_cast<const char *>(data.data()), data.size());
        TablePart source{model.graphName(tensor.name), Shape(llvm::ArrayRef<int64_t>(tensor.shape)), core->shape};
        if (mayBeRows && isOneTable(*core)) {
          source.spread[source.spread.size() - 2] = rowsOf(constant);
          source.spread.back() = table[1];
          if (std::optional<int64_t> first = findRows(tensor, table, bytes, constant, core->elements)) {
            source.first = *first;
            return source;
          }
          if (positionLimit == table[0] && isUnread(tensor.name)) {
            byLimit.push_back(source);
            byLimit.back().byValue = false;
          }
        }
        if (mayBeSpread && withoutOnes(core->shape) == withoutOnes(tensor.shape) &&
            equals(tensor, bytes, constant, core->elements)) {
          source.spread = core->shape;
          source.isRows = false;
          return source;
        }
      }
    if (byLimit.size() == 1 && isCalledLookup(constant.name))
      return byLimit.front();
    return std::nullopt;
  }

  static int64_t rowsOf(const Initializer &constant) { return constant.shape[constant.shape.size() - 2]; }

private:
  std::vector<double> valuesOf(const Initializer &constant) const {
    std::string error;
    return elementsOf(constant.type, constant.shape, model.bytesOf(constant, error));
  }

  /// Nothing but a table: what stands in front of the rows repeats.
  static bool isOneTable(const ConstantCore &core) {
    return llvm::all_of(llvm::ArrayRef<int64_t>(core.shape).drop_back(2), [](int64_t size) { return size == 1; });
  }

  /// The exporter's signature says so, or a vector in a file without one: buffers of more dimensions (masks, rotary
  /// tables) stand in checkpoints too.
  bool isParameter(const SafetensorsTensor &tensor) const {
    Shape sizes = withoutOnes(tensor.shape);
    if (model.parameterTargets.empty())
      return sizes.size() == 1;
    return !sizes.empty() && !isBuffer(tensor);
  }

  /// By dynamo's signature, where there is one.
  bool isBuffer(const SafetensorsTensor &tensor) const {
    std::string name = model.graphName(tensor.name);
    return !model.parameterTargets.empty() &&
           llvm::none_of(model.parameterTargets, [&](const auto &entry) { return entry.second == name; });
  }

  /// The tensor's dimensions stand among the constant's, in this order.
  static bool hasDimensionsOf(const Initializer &constant, const SafetensorsTensor &tensor) {
    Shape sizes = withoutOnes(tensor.shape);
    llvm::ArrayRef<int64_t> left = sizes;
    for (int64_t size : constant.shape)
      if (!left.empty() && left.front() == size)
        left = left.drop_front();
    return left.empty();
  }

  static bool equals(const SafetensorsTensor &tensor, StringRef bytes, const Initializer &constant,
                     llvm::ArrayRef<double> wanted) {
    std::vector<double> elements = elementsOf(elementTypeOf(tensor.typeName), tensor.shape, bytes);
    for (double &element : elements)
      element = roundTo(element, constant.type);
    return !elements.empty() && llvm::ArrayRef<double>(elements) == wanted;
  }

  std::optional<int64_t> findRows(const SafetensorsTensor &tensor, llvm::ArrayRef<int64_t> table, StringRef bytes,
                                  const Initializer &constant, llvm::ArrayRef<double> wanted) const {
    ElementType type = elementTypeOf(tensor.typeName);
    int64_t width = table[1];
    uint64_t rowBytes = uint64_t(width) * elementBytes(type);
    auto row = [&](int64_t r) { // as the graph stores it
      std::vector<double> elements = elementsOf(type, {width}, bytes.substr(uint64_t(r) * rowBytes, rowBytes));
      for (double &element : elements)
        element = roundTo(element, constant.type);
      return elements;
    };
    int64_t count = rowsOf(constant);
    if (type == ElementType::Undefined || int64_t(wanted.size()) != count * width)
      return std::nullopt;
    for (int64_t first = 0; first + count <= table[0]; ++first) {
      int64_t equal = 0;
      while (equal < count && llvm::ArrayRef<double>(row(first + equal)) == wanted.slice(equal * width, width))
        ++equal;
      if (equal == count)
        return first;
    }
    return std::nullopt;
  }

  bool isUnread(StringRef name) const { return !model.initializer(model.graphName(name)); }

  Model &model;
  int64_t positionLimit;
  std::optional<SafetensorsCollection> files;
};

/// Values computed from a row of a table that is looked up, which is what the network works on: no position, no mask.
llvm::StringSet<> dataOf(const Model &model) {
  llvm::StringSet<> data;
  for (const Node &node : model.nodes) {
    if (node.op == "Shape" || node.op == "Size")
      continue;
    const Initializer *table = node.inputs.empty() ? nullptr : model.initializer(node.inputs[0]);
    bool isLookup = node.op == "Gather" && table && isFloat(table->type) && table->shape.size() == 2;
    if (isLookup || llvm::any_of(node.inputs, [&](const std::string &input) { return data.contains(input); }))
      data.insert(node.outputs.begin(), node.outputs.end());
  }
  return data;
}

/// (..., S, H) of more than one row and column that no module's tensor has the name of, and no sines and cosines.
bool mayBePositions(const Model &model, const Initializer &constant) {
  llvm::ArrayRef<int64_t> shape = constant.shape;
  StringRef name = constant.name;
  bool isNamed = hasOwnName(constant) &&
                 (model.parameterTargets.empty() || name.contains('.') ||
                  llvm::any_of(model.parameterTargets, [&](const auto &entry) { return entry.second == name; }));
  return !isNamed && shape.size() <= 3 && shape.back() > 1 && shape[shape.size() - 2] > 1 &&
         !holdsAngles(model, constant);
}

/// Constants of more than one number and two dimensions or more that data meet element by element, or stand beside.
std::vector<TableCandidate> candidatesOf(const Model &model) {
  std::vector<TableCandidate> found;
  llvm::StringSet<> data = dataOf(model);
  for (const Node &node : model.nodes) {
    bool isAdd = node.op == "Add" && node.inputs.size() == 2;
    if (!isAdd && node.op != "Concat" && node.op != "Mul" && node.op != "Sub" && node.op != "Div")
      continue;
    if (llvm::none_of(node.inputs, [&](const std::string &input) { return data.contains(input); }))
      continue;
    for (const std::string &input : node.inputs) {
      const Initializer *constant = model.initializer(input);
      if (!constant || !isFloat(constant->type) || constant->shape.size() < 2 || constant->count() < 2)
        continue;
      auto known =
          llvm::find_if(found, [&](const TableCandidate &candidate) { return candidate.constant == constant; });
      if (known == found.end())
        known = found.insert(found.end(), {constant});
      known->isAdded |= isAdd;
      known->isAddedToLookup |= isAdd && isLookedUp(model, node.inputs[&input == &node.inputs[0] ? 1 : 0]) &&
                                mayBePositions(model, *constant);
    }
  }
  return found;
}

/// The rows, or the tensor, in the constant's shape, for all who read the constant.
void replace(Model &model, const Initializer &constant, const TablePart &source) {
  const std::string value = constant.name + "/parameter";
  model.addRestored(source.tensor, constant.type, source.shape)
      .filePlaces.push_back({source.isRows ? FilePlace::Kind::Rows : FilePlace::Kind::Whole, constant.nameInFile(),
                             source.first, source.spread, nullptr});
  for (Node &node : model.nodes)
    for (std::string &input : node.inputs)
      if (input == constant.name)
        input = value;
  std::vector<Node> chain;
  std::string last = source.tensor;
  auto add = [&](const char *op, std::vector<std::string> inputs, const std::string &name) {
    Node node;
    node.name = name;
    node.op = node.signature = op;
    node.inputs = std::move(inputs);
    node.outputs = {name};
    chain.push_back(node);
    last = name;
  };
  if (source.isRows) {
    const int64_t axis = int64_t(source.shape.size()) - 2;
    add("Slice",
        {last, model.addIntegers(value + "/start", {source.first}).name,
         model.addIntegers(value + "/end", {source.first + SourceFinder::rowsOf(constant)}).name,
         model.addIntegers(value + "/axis", {axis}).name},
        value + "/slice");
  }
  add("Reshape", {last, model.addIntegers(value + "/shape", source.spread).name}, value + "/reshape");
  add("Expand", {last, model.addIntegers(value + "/whole", constant.shape).name}, value);
  model.nodes.insert(model.nodes.begin(), chain.begin(), chain.end());
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
  SourceFinder finder(model, positionLimit, std::move(files));
  for (const TableCandidate &candidate : candidatesOf(model)) {
    const Initializer &constant = *candidate.constant;
    if (std::optional<TablePart> source = hasFiles ? finder.find(candidate) : std::nullopt) {
      std::string part = source->isRows
                             ? "rows " + std::to_string(source->first) + " to " +
                                   std::to_string(source->first + SourceFinder::rowsOf(constant) - 1) + " of "
                             : "";
      notes.push_back("'" + constant.name + "' in the graph is " + part + source->tensor +
                      (source->byValue ? ", by value" : ", by the position limit of config.json") +
                      ": trained as this " + (source->isRows ? "table" : "parameter"));
      replace(model, constant, *source);
    } else if (candidate.isAddedToLookup ||
               (candidate.isAdded && constant.shape.size() <= 3 && isCalledLookup(constant.name))) {
      error = "rows of a learned table were folded into the constant '" + constant.name + "'" +
              (hasFiles ? ", and no table of " + weights + " has them" : "") + ": it would not be trained. " +
              (hasFiles ? "Export" : "Give the checkpoint with --weights, or export") +
              " with optimize=False (dynamo) or do_constant_folding=False, or with free batch and sequence";
      return false;
    }
  }
  return true;
}

} // namespace ztc::importer
