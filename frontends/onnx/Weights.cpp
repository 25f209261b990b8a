#include "frontends/onnx/Weights.h"
#include "compiler/Dialect/Graph/Roles.h"
#include "compiler/Support/ArgumentAttributes.h"
#include "runtime/Core/ShapeText.h"
#include "runtime/Format/Safetensors.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include <set>

using namespace mlir;

namespace ztc::importer {
namespace {

struct Source {
  std::string path;
  uint64_t offset = 0, length = 0, fileSize = 0;
  std::string type;
  bool transposed = false;
  double shift = 0; ///< added to what is read there
};

DictionaryAttr attributeOf(OpBuilder &builder, const Source &source) {
  auto number = [&](uint64_t value) { return builder.getI64IntegerAttr(int64_t(value)); };
  return builder.getDictionaryAttr({builder.getNamedAttr("path", builder.getStringAttr(source.path)),
                                    builder.getNamedAttr("offset", number(source.offset)),
                                    builder.getNamedAttr("length", number(source.length)),
                                    builder.getNamedAttr("type", builder.getStringAttr(source.type)),
                                    builder.getNamedAttr("transpose", builder.getBoolAttr(source.transposed)),
                                    builder.getNamedAttr("file_size", number(source.fileSize)),
                                    builder.getNamedAttr("shift", builder.getF64FloatAttr(source.shift))});
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
    sources[i] =
        Source{path, found->tensor->offset, found->tensor->bytes, size->second, found->tensor->typeName, false, 0};
  }
  if (!problems.empty())
    return emitError(loc) << weights << ": weights do not fit the graph:" << problems;
  return success();
}

LogicalResult fromModel(Emitter &emitter, const Model &model, std::vector<std::optional<Source>> &sources,
                        const ImportOptions &options, ImportReport &report, Location loc) {
  std::set<std::string> missing;
  std::string problems;
  bool holdsBytes = false;
  for (auto [i, parameter] : llvm::enumerate(emitter.parameters())) {
    const Initializer &initializer = *parameter.initializer;
    std::string type = elementName(initializer.type).str();
    if (!initializer.isExternal) {
      holdsBytes = true;
      if (initializer.hasFileOffset)
        sources[i] =
            Source{absolute(model.path), initializer.fileOffset, initializer.bytes.size(), model.fileSize, type,
                   parameter.transposed, -parameter.shift};
      else
        report.notes.push_back(parameter.name +
                               " stands in the ONNX file in a form that cannot be read in place; give --weights");
      continue;
    }
    llvm::SmallString<256> path(llvm::sys::path::parent_path(model.path));
    llvm::sys::path::append(path, initializer.location);
    uint64_t fileSize = 0;
    if (llvm::sys::fs::file_size(path, fileSize)) {
      missing.insert(std::string(path));
      continue;
    }
    if (initializer.offset > fileSize || initializer.length > fileSize - initializer.offset) {
      problems += "\n  " + std::string(path) + " has " + std::to_string(fileSize) + " bytes, " + parameter.name +
                  " ends at " + std::to_string(initializer.offset + initializer.length);
      continue;
    }
    sources[i] = Source{absolute(path), initializer.offset,   initializer.length, fileSize,
                        type,           parameter.transposed, -parameter.shift};
  }
  std::string list;
  for (const std::string &path : missing)
    list += (list.empty() ? "" : ", ") + path;
  if (!problems.empty())
    return emitError(loc) << model.path << ": external data is truncated:" << problems;
  // What is added to fresh ones is known without them.
  for (auto [source, parameter] : llvm::zip(sources, emitter.parameters()))
    if (!source && parameter.shift != 0)
      source = Source{"", 0, 0, 0, "F32", false, -parameter.shift};
  // A graph without any weights was exported so; one that has some lost its data file.
  if (!missing.empty() && holdsBytes)
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
      weight.transposed = sources[i]->transposed;
    }
    report.weights.push_back(std::move(weight));
  }
  marks.store();
  return success();
}

} // namespace ztc::importer
