#include "frontends/onnx/WriteModel.h"
#include "frontends/onnx/ScanModel.h"
#include "frontends/onnx/WireWriter.h"
#include "runtime/Core/File.h"
#include "runtime/Core/Sizes.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"
#include <unistd.h>

using llvm::ArrayRef;
using llvm::formatv;
using llvm::StringRef;

namespace ztc::importer {
namespace {

/// Protobuf's limit for one message.
constexpr uint64_t kLargestMessage = INT32_MAX;
/// Smaller tensors stay in the file: an external one costs about as much as its entry.
constexpr uint64_t kSmallestExternal = 64;
/// Readers that map the file want pages.
constexpr uint64_t kAlignment = 4096;

/// A tensor of the new file whose elements are written.
struct Item {
  const FileTensor *file = nullptr;             ///< whose type and shape it has
  std::vector<const WriteBack::Tensor *> parts; ///< one, or the columns that it is joined of
  std::string newName;                          ///< of a tensor that the exporter had merged with `file`
  bool isExternal = false;
  uint64_t offset = 0;
};

/// Files that are removed again unless they are kept.
class TemporaryFiles {
public:
  ~TemporaryFiles() {
    for (const auto &[temporary, path] : files)
      ::unlink(temporary.c_str());
  }
  std::string add(const std::string &path) {
    files.push_back({path + ".tmp-" + std::to_string(::getpid()), path});
    return files.back().first;
  }
  /// In the order in which they were added.
  Status keep() {
    for (; !files.empty(); files.erase(files.begin()))
      ZTC_RETURN_IF_ERROR(renamePath(files.front().first, files.front().second));
    return Status::ok();
  }

private:
  std::vector<std::pair<std::string, std::string>> files;
};

/// `values` of shape `spread` repeated along its dimensions of size 1.
std::vector<float> repeated(ArrayRef<float> values, ArrayRef<int64_t> spread, ArrayRef<int64_t> shape) {
  std::vector<float> out;
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  out.reserve(count);
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, from = 0, stride = 1;
    for (size_t d = shape.size(); d-- > 0; rest /= shape[d]) {
      from += spread[d] == 1 ? 0 : rest % shape[d] * stride;
      stride *= spread[d];
    }
    out.push_back(values[from]);
  }
  return out;
}

class Writer {
public:
  Writer(const WriteBack &writeBack, const WriteModelOptions &options, FindTensor find)
      : writeBack(writeBack), options(options), find(find) {}

  StatusOr<WrittenModel> run() {
    ZTC_ASSIGN_OR_RETURN(MappedFile file, MappedFile::open(options.input));
    bytes = StringRef(reinterpret_cast<const char *>(file.bytes().data()), file.size());
    if (!scanModel(bytes, scan))
      return dataLoss("'" + options.input + "' is not an ONNX model");
    ZTC_RETURN_IF_ERROR(collect());
    place();
    TemporaryFiles files;
    if (externalBytes)
      ZTC_RETURN_IF_ERROR(writeExternal(files.add(options.output + ".data")));
    std::string model;
    ZTC_RETURN_IF_ERROR(build(model));
    if (model.size() > kLargestMessage)
      return failedPrecondition("'" + options.output + "' would have " + formatSize(model.size()) +
                                ", an ONNX file has at most 2 GiB; give a smaller --external-data");
    const std::string temporary = files.add(options.output);
    ZTC_ASSIGN_OR_RETURN(const File out, File::open(temporary, File::Mode::Create));
    ZTC_RETURN_IF_ERROR(out.reserve(model.size()));
    ZTC_RETURN_IF_ERROR(out.writeAt(0, model.data(), model.size()));
    ZTC_RETURN_IF_ERROR(out.sync());
    ZTC_RETURN_IF_ERROR(files.keep());
    ZTC_RETURN_IF_ERROR(syncFolder(parentFolder(options.output)));
    done.bytes = model.size();
    done.externalBytes = externalBytes;
    done.tensors = items.size();
    return done;
  }

private:
  /// Which tensors of the file are written, and from what.
  Status collect() {
    llvm::MapVector<StringRef, std::vector<const WriteBack::Tensor *>> sources;
    for (const WriteBack::Tensor &tensor : writeBack.tensors)
      sources[tensor.name].push_back(&tensor);
    for (const auto &[name, tensors] : sources) {
      auto known = scan.tensorOf.find(name);
      if (known == scan.tensorOf.end())
        return failedPrecondition(formatv("'{0}' cannot be written: '{1}' of {2}, which holds it, is inside a function "
                                          "or branch, or is not a separate tensor; export the model again",
                                          tensors[0]->trained, name, options.input)
                                      .str());
      const FileTensor &file = scan.tensors[known->second];
      if (!isFloat(file.type))
        return failedPrecondition(formatv("'{0}' cannot be written: {2} has it in fewer bits ('{1}'), and ztc does not "
                                          "quantise for a graph; export the trained folder with PyTorch or optimum, "
                                          "and quantise that graph",
                                          tensors[0]->trained, name, options.input)
                                      .str());
      if (tensors[0]->place && tensors[0]->place->kind == FilePlace::Kind::Joint)
        return failedPrecondition(formatv("'{0}' cannot be written: '{1}' of {2} was computed from it and other "
                                          "parameters together; export the trained folder with PyTorch, or the model "
                                          "again with optimize=False",
                                          tensors[0]->trained, name, options.input)
                                      .str());
      bool isJoined = tensors[0]->place && tensors[0]->place->kind == FilePlace::Kind::Columns;
      items.push_back({&file, isJoined ? tensors : std::vector{tensors[0]}, "", false, 0});
      if (!isJoined && tensors.size() > 1)
        ZTC_RETURN_IF_ERROR(part(items.back(), tensors));
    }
    for (const FileTensor &file : scan.tensors)
      if (file.isExternal && llvm::none_of(items, [&](const Item &item) { return item.file == &file; }))
        kept.push_back(&file);
    return Status::ok();
  }

  /// A tensor, or TorchScript's alias of it: what the importer reads as the tensor is nothing else.
  bool isTensor(const std::string &value, const std::string &name) const {
    if (value == name)
      return true;
    auto inputs = scan.inputsOf.find(value);
    return inputs != scan.inputsOf.end() && inputs->second.size() == 1 && inputs->second[0] == name;
  }

  /// Several parameters stand for one tensor: an exporter merged what was equal. What differs now becomes a tensor of
  /// its own.
  /// `first` is a copy: items are added meanwhile, and it may have been one of them.
  // NOLINTNEXTLINE(performance-unnecessary-value-param)
  Status part(const Item first, ArrayRef<const WriteBack::Tensor *> tensors) {
    std::vector<std::pair<std::string, std::string>> known; // content, name
    for (const WriteBack::Tensor *tensor : tensors) {
      Item item{first.file, {tensor}, "", false, 0};
      ZTC_ASSIGN_OR_RETURN(std::string content, contentOf(item));
      auto same = llvm::find_if(known, [&](const auto &entry) { return entry.first == content; });
      if (same != known.end() && same == known.begin())
        continue;
      const bool isFunction = tensor->place && tensor->place->function; // not what the parameter's name stands for
      std::string name = same != known.end() ? same->second
                         : known.empty()     ? first.file->name
                         : isFunction        ? unusedName(first.file->name)
                                             : unusedName(tensor->trained);
      for (const auto &[node, input] : tensor->readers) {
        auto inputs = scan.inputsOf.find(node);
        if (inputs == scan.inputsOf.end() || input >= inputs->second.size() ||
            !isTensor(inputs->second[input], first.file->name)) {
          if (known.empty())
            continue;
          return failedPrecondition(
              formatv("'{0}' cannot be written: the graph has one tensor, '{1}', for it and '{2}',"
                      " which differ now, and what reads it stands in a function or branch; "
                      "export the model again with optimize=False",
                      tensor->trained, first.file->name, tensors[0]->trained)
                  .str());
        }
        if (!known.empty())
          renamedInputs[node][input] = name;
      }
      bool isNew = !known.empty() && same == known.end();
      if (same == known.end())
        known.push_back({std::move(content), name});
      if (isNew) {
        item.newName = name;
        items.push_back(item);
        done.parted.push_back(name);
      }
    }
    return Status::ok();
  }

  std::string unusedName(const std::string &wanted) {
    std::string name = wanted;
    for (unsigned i = 2; !scan.values.insert(name).second; ++i)
      name = wanted + "_" + std::to_string(i);
    return name;
  }

  /// Where the elements stand: beside the file where they already did, or where it would become too large.
  void place() {
    uint64_t size = bytes.size();
    for (const Item &item : items)
      if (!item.file->isExternal && !item.newName.empty())
        size += item.file->bytes();
    bool isTooLarge = size > options.inlineLimit;
    for (Item &item : items) {
      uint64_t length = item.file->bytes();
      item.isExternal = item.file->isExternal || (isTooLarge && !item.file->isConstant && length >= kSmallestExternal);
      if (item.isExternal)
        item.offset = place(length);
    }
    for (const FileTensor *file : kept)
      keptOffset[file->name] = place(file->bytes());
  }

  uint64_t place(uint64_t length) {
    uint64_t offset = roundUp(externalBytes, length >= kAlignment ? kAlignment : 16);
    externalBytes = offset + length;
    return offset;
  }

  /// The elements as the file has them.
  StatusOr<std::string> contentOf(const Item &item) const {
    const FileTensor &file = *item.file;
    auto named = [&](const Status &status) {
      return Status(status.code(), "'" + item.parts[0]->trained + "' cannot be written as '" + file.name +
                                       "' of the graph: " + status.message());
    };
    uint64_t count = file.bytes() / elementBytes(file.type);
    std::vector<float> values;
    for (const WriteBack::Tensor *tensor : item.parts) {
      StatusOr<std::vector<float>> part = valuesOf(tensor->form, tensor->shape, find);
      if (!part.isOk())
        return named(part.status());
      const std::optional<FilePlace> &place = tensor->place;
      if (!place) {
        values = std::move(*part);
      } else if (place->kind == FilePlace::Kind::Columns) {
        values.resize(count);
        int64_t width = tensor->shape.back(), all = file.shape.empty() ? 0 : file.shape.back();
        if (place->first + width > all || part->size() / width != count / all)
          return named(failedPrecondition("its columns do not fit"));
        for (uint64_t row = 0; row < part->size() / width; ++row)
          std::copy_n(part->begin() + row * width, width, values.begin() + row * all + place->first);
      } else {
        if (place->function)
          *part = place->function(std::move(*part));
        ArrayRef<float> taken = *part;
        uint64_t size = 1;
        for (int64_t dimension : place->spread)
          size *= dimension;
        const int64_t width = place->spread.empty() ? 1 : place->spread.back();
        if (place->kind == FilePlace::Kind::Rows)
          taken = taken.drop_front(std::min<size_t>(place->first * width, taken.size())).take_front(size);
        if (taken.size() != size || place->spread.size() != file.shape.size())
          return named(failedPrecondition("its rows do not fit"));
        values = repeated(taken, place->spread, file.shape);
      }
    }
    if (values.size() != count)
      return named(failedPrecondition(formatv("it has {0} elements, not {1}", values.size(), count).str()));
    StatusOr<std::string> content = encoded(values, file.type);
    return content.isOk() ? std::move(content) : StatusOr<std::string>(named(content.status()));
  }

  Status writeExternal(const std::string &path) {
    ZTC_ASSIGN_OR_RETURN(const File file, File::open(path, File::Mode::Create));
    ZTC_RETURN_IF_ERROR(file.reserve(externalBytes));
    for (const Item &item : items)
      if (item.isExternal) {
        ZTC_ASSIGN_OR_RETURN(const std::string content, contentOf(item));
        ZTC_RETURN_IF_ERROR(file.writeAt(item.offset, content.data(), content.size()));
      }
    ExternalFiles old(llvm::sys::path::parent_path(options.input).str());
    for (const FileTensor *tensor : kept) {
      Initializer initializer;
      initializer.name = tensor->name;
      initializer.location = tensor->location;
      initializer.offset = tensor->offset;
      initializer.length = tensor->bytes();
      std::string error;
      StringRef content = old.bytesOf(initializer, error);
      if (!error.empty())
        return failedPrecondition(error);
      ZTC_RETURN_IF_ERROR(file.writeAt(keptOffset[tensor->name], content.data(), content.size()));
    }
    return file.sync();
  }

  /// A tensor's message with other elements, or others' place.
  static std::string tensorMessage(StringRef message, const std::string &newName,
                                   llvm::function_ref<void(std::string &)> appendData, unsigned dataField) {
    namespace f = onnx_field;
    std::string result;
    bool isAppended = false, isNamed = newName.empty();
    auto append = [&] {
      if (!isAppended)
        appendData(result);
      isAppended = true;
    };
    for (FieldWalk walk(message, 0, message.size()); walk.next();) {
      if (llvm::is_contained({f::kTensorFloats, f::kTensorInts, f::kTensorLongs, f::kTensorRawData, f::kTensorDoubles,
                              f::kTensorUnsigned, f::kTensorExternal, f::kTensorLocation},
                             walk.field))
        continue;
      if (walk.field > dataField)
        append();
      if (walk.field == f::kTensorName && !newName.empty()) {
        appendField(result, f::kTensorName, newName);
        isNamed = true;
      } else {
        result += walk.whole();
      }
    }
    if (!isNamed) // the value of a Constant has none
      appendField(result, f::kTensorName, newName);
    append();
    return result;
  }

  std::string externalTensor(StringRef message, const std::string &newName, uint64_t offset, uint64_t length) const {
    auto entry = [](std::string &to, StringRef key, StringRef value) {
      std::string pair;
      appendField(pair, onnx_field::kEntryKey, key);
      appendField(pair, onnx_field::kEntryValue, value);
      appendField(to, onnx_field::kTensorExternal, pair);
    };
    auto data = [&](std::string &to) {
      entry(to, "location", llvm::sys::path::filename(options.output).str() + ".data");
      entry(to, "offset", std::to_string(offset));
      entry(to, "length", std::to_string(length));
      appendNumber(to, onnx_field::kTensorLocation, 1);
    };
    return tensorMessage(message, newName, data, onnx_field::kTensorExternal);
  }

  StatusOr<std::string> itemMessage(StringRef message, const Item &item) const {
    if (item.isExternal)
      return externalTensor(message, item.newName, item.offset, item.file->bytes());
    ZTC_ASSIGN_OR_RETURN(const std::string content, contentOf(item));
    auto data = [&](std::string &to) { appendField(to, onnx_field::kTensorRawData, content); };
    return tensorMessage(message, item.newName, data, onnx_field::kTensorRawData);
  }

  /// The message of the tensor `name`, and of those that part from it, in place of the old one.
  StatusOr<std::string> tensorFields(StringRef name, const FieldWalk &old) const {
    std::string fields;
    bool isWritten = false;
    for (const Item &item : items)
      if (item.file->name == name) {
        ZTC_ASSIGN_OR_RETURN(const std::string message, itemMessage(old.payload(), item));
        appendField(fields, onnx_field::kGraphInitializer, message);
        isWritten = true;
      }
    if (isWritten)
      return fields;
    if (auto offset = keptOffset.find(name); offset != keptOffset.end()) {
      uint64_t length = scan.tensors[scan.tensorOf.lookup(name)].bytes();
      appendField(fields, onnx_field::kGraphInitializer, externalTensor(old.payload(), "", offset->second, length));
      return fields;
    }
    return old.whole().str();
  }

  /// A node with other inputs, or a Constant with another value; and the tensors that part from this one, as
  /// initializers.
  StatusOr<std::string> nodeFields(const FieldWalk &old) const {
    std::string output;
    for (FieldWalk walk(old.payload(), 0, old.payload().size()); output.empty() && walk.next();)
      if (walk.isMessage && walk.field == onnx_field::kNodeOutput)
        output = walk.payload().str();
    auto renamed = renamedInputs.find(output);
    bool isConstant = llvm::any_of(items, [&](const Item &i) { return i.file->isConstant && i.file->name == output; });
    if (renamed == renamedInputs.end() && !isConstant)
      return old.whole().str();
    Status status = Status::ok();
    unsigned input = 0;
    std::string fields, added;
    appendField(fields, onnx_field::kGraphNode,
                rewritten(old.payload(), [&](const FieldWalk &walk) -> std::optional<std::string> {
                  if (walk.field == onnx_field::kNodeInput && renamed != renamedInputs.end())
                    if (auto name = renamed->second.find(input++); name != renamed->second.end())
                      return name->second;
                  if (walk.field != onnx_field::kNodeAttribute || !isConstant)
                    return std::nullopt;
                  return rewritten(walk.payload(), [&](const FieldWalk &value) -> std::optional<std::string> {
                    if (value.field != onnx_field::kAttributeTensor)
                      return std::nullopt;
                    std::string own;
                    for (const Item &item : items)
                      if (item.file->name == output) {
                        StatusOr<std::string> message = itemMessage(value.payload(), item);
                        if (!message.isOk())
                          status = message.status();
                        else if (item.newName.empty())
                          own = *message;
                        else
                          appendField(added, onnx_field::kGraphInitializer, *message);
                      }
                    return own;
                  });
                }));
    ZTC_RETURN_IF_ERROR(status);
    return fields + added;
  }

  Status build(std::string &model) const {
    model.reserve(bytes.size() + bytes.size() / 16);
    for (FieldWalk top(bytes, 0, bytes.size()); top.next();) {
      if (top.field != onnx_field::kModelGraph || !top.isMessage) {
        model += top.whole();
        continue;
      }
      std::string graph;
      graph.reserve(bytes.size());
      for (FieldWalk walk(top.payload(), 0, top.payload().size()); walk.next();) {
        StatusOr<std::string> fields = walk.whole().str();
        if (walk.isMessage && walk.field == onnx_field::kGraphNode)
          fields = nodeFields(walk);
        if (walk.isMessage && walk.field == onnx_field::kGraphInitializer) {
          FileTensor tensor;
          scanTensor(walk.payload(), tensor);
          fields = tensorFields(tensor.name, walk);
        }
        ZTC_RETURN_IF_ERROR(fields.status());
        graph += *fields;
      }
      appendField(model, onnx_field::kModelGraph, graph);
    }
    return Status::ok();
  }

  const WriteBack &writeBack;
  const WriteModelOptions &options;
  FindTensor find;
  StringRef bytes;
  FileScan scan;
  std::vector<Item> items;
  std::vector<const FileTensor *> kept; ///< external ones that stay as they are
  llvm::StringMap<uint64_t> keptOffset;
  llvm::StringMap<std::map<unsigned, std::string>> renamedInputs; ///< by a node's first output
  uint64_t externalBytes = 0;
  WrittenModel done;
};

} // namespace

StatusOr<WrittenModel> writeModel(const WriteBack &writeBack, const WriteModelOptions &options, FindTensor find) {
  return Writer(writeBack, options, find).run();
}

} // namespace ztc::importer
