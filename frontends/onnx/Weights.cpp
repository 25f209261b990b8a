#include "frontends/onnx/Weights.h"
#include "compiler/Dialect/Graph/Roles.h"
#include "compiler/Support/ArgumentAttributes.h"
#include "compiler/Support/StoredPiece.h"
#include "runtime/Core/ShapeText.h"
#include "runtime/Format/Safetensors.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include <map>
#include <set>

using namespace mlir;

namespace ztc::importer {
namespace {

struct Source : StoredPiece {
  bool transposed = false;
  double shift = 0; ///< added to what is read there
  /// Of a weight in fewer bits: the place is that of its codes, `transposed` says so of them.
  std::shared_ptr<const QuantizedValues> quantized = nullptr;
  StoredPiece scales = {}, zeros = {};
};

DictionaryAttr codesAttribute(OpBuilder &builder, const Source &source) {
  const QuantizedValues &values = *source.quantized;
  NamedAttrList codes;
  auto add = [&](llvm::StringRef name, int64_t value) { codes.append(name, builder.getI64IntegerAttr(value)); };
  codes.append("kind", builder.getStringAttr(values.codes.type == ElementType::F8E4M3   ? "e4m3"
                                             : values.codes.type == ElementType::F8E5M2 ? "e5m2"
                                                                                        : "integer"));
  add("bits", values.bits);
  if (values.isSigned)
    codes.append("signed", builder.getUnitAttr());
  add("rows", values.rows);
  add("columns", values.columns);
  add("row_bytes", values.rowBytes);
  if (source.transposed)
    codes.append("transposed", builder.getUnitAttr());
  add("block_rows", values.blockRows);
  add("block_columns", values.blockColumns);
  codes.append("scales", builder.getDictionaryAttr(source.scales.attributes(builder)));
  if (!values.zeros.name.empty()) {
    codes.append("zeros", builder.getDictionaryAttr(source.zeros.attributes(builder)));
    if (!isFloat(values.zeros.type))
      add("zero_row_bits", values.zeroRowBits);
  } else {
    add("zero", values.zero);
  }
  return codes.getDictionary(builder.getContext());
}

DictionaryAttr attributeOf(OpBuilder &builder, const Source &source) {
  NamedAttrList attributes(source.attributes(builder));
  if (source.quantized) {
    attributes.append("dequantized", builder.getUnitAttr());
    attributes.append("codes", codesAttribute(builder, source));
  } else {
    attributes.append("transpose", builder.getBoolAttr(source.transposed));
  }
  attributes.append("shift", builder.getF64FloatAttr(source.shift));
  return attributes.getDictionary(builder.getContext());
}

std::string absolute(llvm::StringRef path) {
  llvm::SmallString<256> result(path);
  (void)llvm::sys::fs::make_absolute(result);
  llvm::sys::path::remove_dots(result, /*remove_dot_dot=*/true);
  return std::string(result);
}

/// A tensor of the checkpoint under one of the parameter's names.
std::optional<SafetensorsCollection::Found> findTensor(const SafetensorsCollection &files, const Parameter &parameter) {
  for (const std::string &name : checkpointNames(parameter))
    if (auto found = files.find(name))
      return found;
  return std::nullopt;
}

LogicalResult fromCheckpoint(Emitter &emitter, const std::string &weights, std::vector<std::optional<Source>> &sources,
                             Location loc) {
  StatusOr<SafetensorsCollection> files = SafetensorsCollection::open(weights);
  if (!files.isOk())
    return emitError(loc) << files.status().message();
  std::string problems;
  std::map<std::string, uint64_t> sizes;
  for (auto [i, parameter] : llvm::enumerate(emitter.parameters())) {
    auto found = findTensor(*files, parameter);
    llvm::ArrayRef<int64_t> shape = shapeOf(parameter.argument);
    if (!found) {
      problems += "\n  " + parameter.name + " " + shapeText(shape) + " is missing";
      continue;
    }
    if (llvm::ArrayRef<int64_t>(found->tensor->shape) != shape) {
      problems += "\n  " + parameter.name + " has shape " + shapeText(found->tensor->shape) + ", the graph needs " +
                  shapeText(shape);
      continue;
    }
    llvm::StringRef type = found->tensor->typeName;
    if (type != "F32" && type != "F16" && type != "BF16" && type != "F64") {
      problems += "\n  " + parameter.name + " has type " + type.str() + ", which is not a float type that ztc reads";
      continue;
    }
    std::string path = absolute(found->file->path());
    auto [size, isNew] = sizes.try_emplace(path, 0);
    if (isNew)
      (void)llvm::sys::fs::file_size(path, size->second);
    sources[i] = Source{{path, found->tensor->offset, found->tensor->bytes, size->second, found->tensor->typeName}};
  }
  if (!problems.empty())
    return emitError(loc) << weights << ": weights do not fit the graph:" << problems;
  return success();
}

/// Where a model has its initializers.
class Places {
public:
  explicit Places(const Model &model) : model(model) {}

  std::optional<StoredPiece> find(const Initializer &initializer, const std::string &parameter) {
    const std::string type = typeOf(initializer);
    if (!initializer.isExternal) {
      holdsBytes = true;
      if (initializer.hasFileOffset)
        return StoredPiece{absolute(model.path), initializer.fileOffset, initializer.bytes.size(), model.fileSize,
                           type};
      unreadable.insert(parameter);
      return std::nullopt;
    }
    llvm::SmallString<256> path(llvm::sys::path::parent_path(model.path));
    llvm::sys::path::append(path, initializer.location);
    uint64_t fileSize = 0;
    if (llvm::sys::fs::file_size(path, fileSize)) {
      missing.insert(std::string(path));
      return std::nullopt;
    }
    if (initializer.offset > fileSize || initializer.length > fileSize - initializer.offset) {
      problems += "\n  " + std::string(path) + " has " + std::to_string(fileSize) + " bytes, " + parameter +
                  " ends at " + std::to_string(initializer.offset + initializer.length);
      return std::nullopt;
    }
    return StoredPiece{absolute(path), initializer.offset, initializer.length, fileSize, type};
  }

  /// The same of a small table, which the plan holds itself where it cannot be read in place.
  std::optional<StoredPiece> findTable(const Initializer &initializer, const std::string &parameter) {
    if (initializer.isExternal || initializer.hasFileOffset)
      return find(initializer, parameter);
    return StoredPiece{"", 0, initializer.bytes.size(), 0, typeOf(initializer), initializer.bytes.str()};
  }

  /// Nothing where a part of it is nowhere.
  std::optional<Source> find(const Parameter &parameter) {
    const Initializer &initializer = *parameter.initializer;
    Source source;
    source.quantized = initializer.quantized;
    std::optional<StoredPiece> own = find(source.quantized ? source.quantized->codes : initializer, parameter.name);
    std::optional<StoredPiece> scales, zeros;
    if (source.quantized) {
      scales = findTable(source.quantized->scales, parameter.name);
      zeros = source.quantized->zeros.name.empty() ? StoredPiece() : findTable(source.quantized->zeros, parameter.name);
      if (!scales || !zeros)
        return std::nullopt;
      source.scales = *scales;
      source.zeros = *zeros;
    }
    if (!own)
      return std::nullopt;
    static_cast<StoredPiece &>(source) = *own;
    source.transposed = parameter.transposed != (source.quantized && source.quantized->isTransposed);
    source.shift = -parameter.shift;
    return source;
  }

  std::set<std::string> missing;    ///< files
  std::set<std::string> unreadable; ///< parameters
  std::string problems;             ///< lines
  bool holdsBytes = false;

private:
  /// As plans call it: codes are bytes.
  static std::string typeOf(const Initializer &initializer) {
    return elementBits(initializer.type) < 16 ? "U8" : elementName(initializer.type).str();
  }

  const Model &model;
};

void noteQuantized(llvm::ArrayRef<std::optional<Source>> sources, ImportReport &report) {
  std::map<std::string, size_t> count; // of each form
  std::set<std::string> types;
  for (const std::optional<Source> &source : sources)
    if (source && source->quantized) {
      ++count[source->quantized->format()];
      types.insert(source->scales.type);
    }
  size_t all = 0;
  std::string forms;
  for (const auto &[form, weights] : count) {
    all += weights;
    forms += (forms.empty() ? "" : "; ") + std::to_string(weights) + " in " + form;
  }
  if (all)
    report.notes.push_back(std::to_string(all) + " weights are stored in fewer bits (" + forms +
                           "): they are dequantised as they are loaded, and exported in " + llvm::join(types, ", "));
}

LogicalResult fromModel(Emitter &emitter, const Model &model, std::vector<std::optional<Source>> &sources,
                        const ImportOptions &options, ImportReport &report, Location loc) {
  Places places(model);
  for (auto [source, parameter] : llvm::zip(sources, emitter.parameters()))
    source = places.find(parameter);
  const std::set<std::string> &missing = places.missing;
  for (const std::string &name : places.unreadable)
    report.notes.push_back(name + " stands in the ONNX file in a form that cannot be read in place; give --weights");
  std::string list;
  for (const std::string &path : missing)
    list += (list.empty() ? "" : ", ") + path;
  if (!places.problems.empty())
    return emitError(loc) << model.path << ": external data is truncated:" << places.problems;
  // What is added to fresh ones is known without them.
  for (auto [source, parameter] : llvm::zip(sources, emitter.parameters()))
    if (!source && parameter.shift != 0)
      source = Source{{"", 0, 0, 0, "F32"}, false, -parameter.shift};
  noteQuantized(sources, report);
  // A graph without any weights was exported so; one that has some lost its data file.
  if (!missing.empty() && places.holdsBytes)
    return emitError(loc) << model.path << ": its external data " << list
                          << " is not there; put it back, or give the weights with --weights";
  if (!missing.empty() && options.message.empty())
    report.notes.push_back("a graph without weights (" + list + " is not there): give --weights, or --init to ztc-run");
  return success();
}

} // namespace

std::vector<std::string> checkpointNames(const Parameter &parameter) {
  std::vector<std::string> own{parameter.name}, names;
  if (!parameter.stored.empty())
    own.insert(own.begin(), parameter.stored);
  own.insert(own.end(), parameter.tied.begin(), parameter.tied.end());
  names = own;
  for (llvm::StringRef name : own)
    for (llvm::StringRef prefix : {"model.", "transformer."}) {
      if (name.consume_front(prefix))
        names.push_back(name.str());
      names.push_back((prefix + name).str());
    }
  for (const std::string &name : own)
    if (name == "lm_head.weight") // transformers 5 calls GPT-NeoX' head so, and writes it under the old name
      names.push_back("embed_out.weight");
  return names;
}

LogicalResult attachSources(Emitter &emitter, const Model &model, const ImportOptions &options, ImportReport &report) {
  const std::string &weights = options.weights;
  func::FuncOp forward = emitter.function();
  Location loc = UnknownLoc::get(forward.getContext());
  std::vector<std::optional<Source>> sources(emitter.parameters().size());
  if (failed(weights.empty() ? fromModel(emitter, model, sources, options, report, loc)
                             : fromCheckpoint(emitter, weights, sources, loc)))
    return failure();
  OpBuilder builder(forward.getContext());
  ArgumentAttributes marks(forward);
  for (auto [i, parameter] : llvm::enumerate(emitter.parameters())) {
    unsigned index = parameter.argument.getArgNumber();
    if (sources[i])
      marks.set(index, graph::kSource, attributeOf(builder, *sources[i]));
    if (!parameter.tied.empty()) {
      SmallVector<llvm::StringRef> tied(parameter.tied.begin(), parameter.tied.end());
      marks.set(index, graph::kTied, builder.getStrArrayAttr(tied));
    }
    ImportReport::Weight weight;
    weight.name = parameter.name;
    weight.shape.assign(shapeOf(parameter.argument).begin(), shapeOf(parameter.argument).end());
    weight.onnxName = parameter.initializer->name;
    weight.tied = parameter.tied;
    weight.transformations = parameter.transformations;
    if (parameter.transposed && !weights.empty())
      weight.transformations.push_back("the graph holds the transpose");
    if (sources[i]) {
      weight.source = sources[i]->path;
      weight.transposed = sources[i]->transposed && !sources[i]->quantized;
      if (sources[i]->quantized)
        weight.transformations.push_back("stored in " + sources[i]->quantized->format() +
                                         ", dequantised as it is loaded");
    }
    report.weights.push_back(std::move(weight));
  }
  marks.store();
  return success();
}

} // namespace ztc::importer
