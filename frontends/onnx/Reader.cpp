// Calls the ONNX library, which throws: compiled with exceptions, as Schemas.cpp and InlineFunctions.cpp are; all of
// them are caught here.
#include "frontends/onnx/Budget.h"
#include "frontends/onnx/CheckNodes.h"
#include "frontends/onnx/InlineBranches.h"
#include "frontends/onnx/InlineFunctions.h"
#include "onnx/onnx_pb.h"
#include "runtime/Core/File.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Path.h"
#include <cstring>

using llvm::StringRef;

namespace ztc::importer {
namespace {

/// Keeps the file, the parsed message and what was decoded from typed fields alive.
struct Storage {
  std::optional<MappedFile> file;
  std::string message; ///< the model itself, where there is no file
  StringRef bytes() const {
    return file ? StringRef(reinterpret_cast<const char *>(file->bytes().data()), file->size()) : StringRef(message);
  }
  ::onnx::ModelProto proto;
  std::deque<std::string> decoded;
};

/// Elements that protobuf keeps in typed lists, as little-endian bytes of the tensor's type.
template <typename Stored, typename List> std::string packed(const List &list) {
  std::string bytes(list.size() * sizeof(Stored), '\0');
  size_t position = 0;
  for (auto element : list) {
    auto stored = static_cast<Stored>(element);
    std::memcpy(bytes.data() + position, &stored, sizeof stored);
    position += sizeof stored;
  }
  return bytes;
}

std::string decodeTyped(const ::onnx::TensorProto &tensor) {
  switch (static_cast<ElementType>(tensor.data_type())) {
  case ElementType::F32:
    return packed<float>(tensor.float_data());
  case ElementType::F64:
    return packed<double>(tensor.double_data());
  case ElementType::I64:
    return packed<int64_t>(tensor.int64_data());
  case ElementType::I32:
    return packed<int32_t>(tensor.int32_data());
  case ElementType::U32:
    return packed<uint32_t>(tensor.uint64_data());
  case ElementType::U64:
    return packed<uint64_t>(tensor.uint64_data());
  case ElementType::F16:
  case ElementType::BF16:
  case ElementType::U16:
  case ElementType::I16:
    return packed<uint16_t>(tensor.int32_data());
  case ElementType::Bool:
  case ElementType::U8:
  case ElementType::I8:
    return packed<uint8_t>(tensor.int32_data());
  default:
    return {};
  }
}

class Converter {
public:
  Converter(Model &model, Storage &storage, std::string &error) : model(model), storage(storage), error(error) {}

  bool run() {
    const ::onnx::GraphProto &graph = storage.proto.graph();
    for (const auto &opset : storage.proto.opset_import())
      if (opset.domain().empty() || opset.domain() == "ai.onnx")
        model.opset = opset.version();
    readSignature(graph);
    llvm::StringSet<> defined;
    auto places = findRawData(storage.bytes());
    for (const ::onnx::TensorProto &tensor : graph.initializer()) {
      Initializer initializer;
      if (!convert(tensor, initializer))
        return false;
      initializer.name = tensor.name();
      if (auto place = places.find(tensor.name());
          place != places.end() && place->second.second == initializer.bytes.size()) {
        initializer.hasFileOffset = true;
        initializer.fileOffset = place->second.first;
      }
      if (!defined.insert(tensor.name()).second)
        return fail("holds two initializers of the name '" + tensor.name() + "'");
      add(std::move(initializer));
    }
    if (graph.sparse_initializer_size())
      return fail("holds sparse initializers, which ztc does not read");
    for (const auto &input : graph.input()) {
      defined.insert(input.name());
      if (!model.initializerOf.count(input.name()))
        model.inputs.push_back(convert(input));
    }
    for (const auto &output : graph.output())
      model.outputs.push_back(convert(output));
    for (const ::onnx::NodeProto &node : graph.node())
      if (!addNode(node, defined))
        return false;
    llvm::SmallVector<std::pair<std::string, int64_t>> opsets;
    for (const auto &opset : storage.proto.opset_import())
      opsets.push_back({opset.domain(), opset.version()});
    if (!loadSchemas(model, opsets, error) || !checkNodes(model, error))
      return false;
    for (const auto &output : model.outputs)
      if (!defined.contains(output.name))
        return fail("output '" + output.name + "' is not computed by any node");
    return true;
  }

private:
  bool fail(std::string message) {
    error = std::move(message);
    return false;
  }

  void add(Initializer &&initializer) {
    model.initializers.push_back(std::move(initializer));
    model.initializerOf[model.initializers.back().name] = &model.initializers.back();
  }

  /// Lines such as "p_lm_head_weight: PARAMETER target='lm_head.weight'".
  void readSignature(const ::onnx::GraphProto &graph) {
    for (const auto &property : graph.metadata_props()) {
      const bool isFrozen = property.key() == "ztc.frozen";
      if (!isFrozen && property.key() != "pkg.torch.export.ExportedProgram.graph_signature")
        continue;
      llvm::SmallVector<StringRef> lines;
      StringRef(property.value()).split(lines, '\n', -1, /*KeepEmpty=*/false);
      for (StringRef line : lines) {
        if (isFrozen) {
          model.frozen.insert(line);
          continue;
        }
        auto [name, rest] = line.split(':');
        auto [kind, target] = rest.trim().split(" target='");
        if (kind == "PARAMETER")
          model.parameterTargets[name] = target.take_until([](char c) { return c == '\''; }).str();
      }
    }
  }

  bool convert(const ::onnx::TensorProto &tensor, Initializer &result) {
    result.type = static_cast<ElementType>(tensor.data_type());
    result.shape.assign(tensor.dims().begin(), tensor.dims().end());
    const unsigned bits = elementBits(result.type);
    if (!bits)
      return fail("tensor '" + tensor.name() + "' has element type " + std::to_string(tensor.data_type()) +
                  ", which ztc does not read");
    uint64_t wanted = bits;
    for (int64_t size : result.shape) {
      if (size < 0 || (size > 0 && wanted > UINT64_MAX / 2 / uint64_t(size)))
        return fail("tensor '" + tensor.name() + "' has an impossible shape");
      wanted *= uint64_t(size);
    }
    wanted = (wanted + 7) / 8;
    if (tensor.data_location() == ::onnx::TensorProto::EXTERNAL) {
      result.isExternal = true;
      result.length = wanted;
      for (const auto &entry : tensor.external_data()) {
        uint64_t number = 0;
        if (entry.key() == "location")
          result.location = entry.value();
        else if (entry.key() == "offset" || entry.key() == "length") {
          if (StringRef(entry.value()).getAsInteger(10, number))
            return fail("tensor '" + tensor.name() + "': external data " + entry.key() + " '" + entry.value() +
                        "' is not a number");
          if (entry.key() == "offset")
            result.offset = number;
          else if (number != wanted)
            return fail("tensor '" + tensor.name() + "': external data has " + std::to_string(number) +
                        " bytes, its shape needs " + std::to_string(wanted));
        }
      }
      if (result.location.empty() || StringRef(result.location).starts_with("/") ||
          StringRef(result.location).contains(".."))
        return fail("tensor '" + tensor.name() + "': external data location '" + result.location +
                    "' is not a path inside the model's folder");
      return true;
    }
    if (tensor.has_raw_data()) {
      result.bytes = tensor.raw_data();
    } else {
      storage.decoded.push_back(decodeTyped(tensor));
      result.bytes = storage.decoded.back();
    }
    if (result.bytes.size() != wanted)
      return fail("tensor '" + tensor.name() + "' has " + std::to_string(result.bytes.size()) +
                  " bytes, its shape needs " + std::to_string(wanted));
    return true;
  }

  static GraphValue convert(const ::onnx::ValueInfoProto &info) {
    GraphValue value;
    value.name = info.name();
    if (info.type().has_tensor_type()) {
      value.type = static_cast<ElementType>(info.type().tensor_type().elem_type());
      value.hasShape = info.type().tensor_type().has_shape();
      for (const auto &dimension : info.type().tensor_type().shape().dim()) {
        value.shape.push_back(dimension.has_dim_value() ? dimension.dim_value() : -1);
        value.symbols.push_back(dimension.dim_param());
      }
    }
    return value;
  }

  bool convert(const ::onnx::AttributeProto &from, const ::onnx::NodeProto &node, Attribute &to) {
    using Proto = ::onnx::AttributeProto;
    switch (from.type()) {
    case Proto::FLOAT:
      to.kind = Attribute::Kind::Float;
      to.real = from.f();
      break;
    case Proto::INT:
      to.kind = Attribute::Kind::Int;
      to.integer = from.i();
      break;
    case Proto::STRING:
      to.kind = Attribute::Kind::String;
      to.text = from.s();
      break;
    case Proto::TENSOR:
      to.kind = Attribute::Kind::Tensor;
      to.tensor = std::make_shared<Initializer>();
      to.tensor->name = node.output_size() ? node.output(0) : from.t().name();
      if (!convert(from.t(), *to.tensor))
        return false;
      if (to.tensor->isExternal && node.op_type() != "Constant")
        return fail("node '" + node.name() + "' (" + node.op_type() + "): its attribute '" + from.name() +
                    "' is in another file, where only weights and constants may be");
      return true;
    case Proto::FLOATS:
      to.kind = Attribute::Kind::Floats;
      to.reals.assign(from.floats().begin(), from.floats().end());
      break;
    case Proto::INTS:
      to.kind = Attribute::Kind::Ints;
      to.integers.assign(from.ints().begin(), from.ints().end());
      break;
    case Proto::GRAPH:
      to.kind = Attribute::Kind::Graph;
      break;
    default:
      break;
    }
    return true;
  }

  /// The value of a Constant node, whichever attribute holds it; false where it is of a kind ztc does not read.
  bool constantValue(Node &node, Initializer &result) {
    auto decoded = [&](std::string bytes, ElementType type, llvm::ArrayRef<int64_t> shape) {
      storage.decoded.push_back(std::move(bytes));
      result.bytes = storage.decoded.back();
      result.type = type;
      result.shape.assign(shape.begin(), shape.end());
    };
    for (auto &entry : node.attributes) {
      Attribute &attribute = entry.second;
      StringRef key = entry.first();
      if (key == "value" && attribute.tensor)
        result = *attribute.tensor;
      else if (key == "value_int")
        decoded(packed<int64_t>(std::vector<int64_t>{attribute.integer}), ElementType::I64, {});
      else if (key == "value_ints")
        decoded(packed<int64_t>(attribute.integers), ElementType::I64, {int64_t(attribute.integers.size())});
      else if (key == "value_float")
        decoded(packed<float>(std::vector<double>{attribute.real}), ElementType::F32, {});
      else if (key == "value_floats")
        decoded(packed<float>(attribute.reals), ElementType::F32, {int64_t(attribute.reals.size())});
    }
    result.name = node.outputs.empty() ? "" : node.outputs[0];
    return result.type != ElementType::Undefined;
  }

  bool addNode(const ::onnx::NodeProto &proto, llvm::StringSet<> &defined) {
    Node node;
    node.name = proto.name();
    node.op = proto.op_type();
    node.domain = proto.domain() == "ai.onnx" ? "" : proto.domain();
    node.signature = node.domain.empty() ? node.op : node.domain + "::" + node.op;
    node.inputs.assign(proto.input().begin(), proto.input().end());
    node.outputs.assign(proto.output().begin(), proto.output().end());
    for (const auto &property : proto.metadata_props()) {
      if (property.key() == "pkg.torch.onnx.name_scopes")
        node.scopes = property.value();
      else if (property.key() == "pkg.torch.onnx.fx_node")
        node.fxNode = property.value();
      else if (property.key() == "ztc.width")
        node.width = property.value() == "f32" ? Node::Width::Wide : Node::Width::Parameters;
      else if (property.key() == "ztc.detached")
        node.isDetached = true;
    }
    for (const ::onnx::AttributeProto &attribute : proto.attribute())
      if (!convert(attribute, proto, node.attributes[attribute.name()]))
        return false;
    for (const std::string &input : node.inputs)
      if (!input.empty() && !defined.contains(input))
        return fail("node '" + node.label() + "' (" + node.signature + ") reads '" + input +
                    "', which nothing before it defines");
    for (const std::string &output : node.outputs)
      if (!output.empty() && !defined.insert(output).second)
        return fail("value '" + output + "' is defined twice");
    if (node.signature == "Constant") {
      Initializer initializer;
      if (!constantValue(node, initializer))
        return fail("Constant node '" + node.label() + "' holds a kind of value that ztc does not read");
      add(std::move(initializer));
      return true;
    }
    for (const std::string &output : node.outputs)
      if (!output.empty())
        model.producerOf[output] = model.nodes.size();
    model.nodes.push_back(std::move(node));
    return true;
  }

  Model &model;
  Storage &storage;
  std::string &error;
};

std::unique_ptr<Model> read(std::shared_ptr<Storage> storage, const std::string &path, std::string &error) {
  StringRef bytes = storage->bytes();
  if (bytes.size() > INT32_MAX) {
    error = "is larger than 2 GiB, the limit of an ONNX file: export with external data";
    return nullptr;
  }
  if (bytes.empty() || !storage->proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) ||
      !storage->proto.has_graph()) {
    error = "is not an ONNX model, or a truncated one";
    return nullptr;
  }
  if (!inlineFunctions(storage->proto, error) || !inlineBranches(storage->proto, error))
    return nullptr;
  if (!storage->proto.graph().node_size()) {
    error = "is an ONNX model without nodes";
    return nullptr;
  }
  auto model = std::make_unique<Model>();
  model->budget = std::make_shared<EvaluationBudget>();
  model->path = path;
  model->externalFiles = std::make_shared<ExternalFiles>(llvm::sys::path::parent_path(path).str());
  model->fileSize = bytes.size();
  model->exporter = storage->proto.producer_name();
  if (!storage->proto.producer_version().empty())
    model->exporter += " " + storage->proto.producer_version();
  if (!Converter(*model, *storage, error).run())
    return nullptr;
  noteLinks(*model);
  model->storage = std::move(storage);
  return model;
}

std::unique_ptr<Model> guarded(std::shared_ptr<Storage> storage, const std::string &path, std::string &error) {
  try {
    return read(std::move(storage), path, error);
  } catch (const std::exception &exception) {
    error = std::string("the ONNX library refuses it: ") + exception.what();
  }
  return nullptr;
}

} // namespace

std::unique_ptr<Model> readModel(const std::string &path, std::string &error) {
  StatusOr<MappedFile> file = MappedFile::open(path);
  if (!file.isOk()) {
    error = file.status().message();
    return nullptr;
  }
  auto storage = std::make_shared<Storage>();
  storage->file = std::move(*file);
  return guarded(std::move(storage), path, error);
}

std::unique_ptr<Model> parseModel(std::string bytes, const std::string &path, std::string &error) {
  auto storage = std::make_shared<Storage>();
  storage->message = std::move(bytes);
  return guarded(std::move(storage), path, error);
}

} // namespace ztc::importer
