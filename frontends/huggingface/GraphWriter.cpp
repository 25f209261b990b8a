// Calls the ONNX library: compiled with exceptions, which end here.
#include "frontends/huggingface/GraphWriter.h"
#include "onnx/onnx_pb.h"
#include <algorithm>
#include <cctype>
#include <cstring>
#include <map>

namespace ztc::huggingface {

/// Of the default domain: the first with RMSNormalization, RotaryEmbedding and Attention; and the first with
/// CausalConvWithState and LinearAttention, which graphs of them alone declare.
static constexpr int64_t kOpset = 23, kIrVersion = 11, kRecurrentOpset = 27, kRecurrentIrVersion = 13;

struct GraphWriter::State {
  ::onnx::ModelProto model;
  std::map<std::string, Value> constants; ///< by type, shape and bytes
  std::string signature;                  ///< as PyTorch's exporter writes it: which initializers are parameters
  std::string frozen;                     ///< names of those that are not trained, a line each
  ::onnx::GraphProto &graph() { return *model.mutable_graph(); }

  Value constant(int type, const std::vector<int64_t> &shape, std::string bytes) {
    std::string key = std::to_string(type);
    for (int64_t size : shape)
      key += "," + std::to_string(size);
    auto [known, isNew] = constants.try_emplace(key + ":" + bytes);
    if (!isNew)
      return known->second;
    ::onnx::TensorProto &tensor = *graph().add_initializer();
    tensor.set_name("constant." + std::to_string(constants.size()));
    tensor.set_data_type(type);
    for (int64_t size : shape)
      tensor.add_dims(size);
    tensor.set_raw_data(std::move(bytes));
    return known->second = tensor.name();
  }
};

template <typename T> static std::string bytesOf(const std::vector<T> &values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  if (!values.empty())
    std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::string exportedName(const std::string &parameter) {
  std::string name = "p_" + parameter;
  std::replace_if(name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c); }, '_');
  return name;
}

GraphWriter::GraphWriter(std::string producer, std::string graphName) : state(std::make_unique<State>()) {
  state->model.set_ir_version(kIrVersion);
  state->model.set_producer_name(std::move(producer));
  ::onnx::OperatorSetIdProto &opset = *state->model.add_opset_import();
  opset.set_domain("");
  opset.set_version(kOpset);
  state->graph().set_name(std::move(graphName));
}

GraphWriter::~GraphWriter() = default;

static void describe(::onnx::ValueInfoProto &info, const std::string &name, int type, int64_t last) {
  info.set_name(name);
  auto &tensor = *info.mutable_type()->mutable_tensor_type();
  tensor.set_elem_type(type);
  tensor.mutable_shape()->add_dim()->set_dim_param("batch");
  tensor.mutable_shape()->add_dim()->set_dim_param("sequence");
  if (last)
    tensor.mutable_shape()->add_dim()->set_dim_value(last);
}

void GraphWriter::addTokens(const std::string &name) {
  describe(*state->graph().add_input(), name, ::onnx::TensorProto::INT64, 0);
}

void GraphWriter::addLogits(const Value &value, int64_t vocabulary) {
  auto &node = *state->graph().add_node();
  node.set_op_type("Identity");
  node.set_name("/Identity");
  node.add_input(value);
  node.add_output("logits");
  describe(*state->graph().add_output(), "logits", ::onnx::TensorProto::FLOAT, vocabulary);
}

static int typeOf(const std::string &name) {
  if (name == "BF16")
    return ::onnx::TensorProto::BFLOAT16;
  if (name == "F16")
    return ::onnx::TensorProto::FLOAT16;
  return name == "F64" ? ::onnx::TensorProto::DOUBLE : ::onnx::TensorProto::FLOAT;
}

void GraphWriter::addParameter(const StoredTensor &stored, bool isTrained) {
  ::onnx::TensorProto &tensor = *state->graph().add_initializer();
  tensor.set_name(stored.name);
  tensor.set_data_type(typeOf(stored.typeName));
  for (int64_t size : stored.shape)
    tensor.add_dims(size);
  tensor.set_data_location(::onnx::TensorProto::EXTERNAL);
  auto entry = [&](const char *key, std::string value) {
    auto &pair = *tensor.add_external_data();
    pair.set_key(key);
    pair.set_value(std::move(value));
  };
  entry("location", stored.file);
  entry("offset", std::to_string(stored.offset));
  entry("length", std::to_string(stored.bytes));
  state->signature += exportedName(stored.name) + ": PARAMETER target='" + stored.name + "'\n";
  if (!isTrained)
    state->frozen += stored.name + "\n";
}

GraphWriter::Value GraphWriter::nameOf(std::string_view op) {
  return (scope.empty() ? "" : scope + ".") + std::string(op) + "_" + std::to_string(count++);
}

std::vector<GraphWriter::Value> GraphWriter::addMany(std::string_view op, std::vector<Value> inputs, unsigned outputs,
                                                     const std::vector<NodeAttribute> &attributes) {
  if (op == "CausalConvWithState" || op == "LinearAttention") {
    state->model.set_ir_version(kRecurrentIrVersion);
    state->model.mutable_opset_import(0)->set_version(kRecurrentOpset);
  }
  ::onnx::NodeProto &node = *state->graph().add_node();
  node.set_op_type(std::string(op));
  // "/model.layers.0.mlp/Mul_7": the path between the slashes is the module's, as TorchScript writes it.
  node.set_name("/" + (scope.empty() ? std::string() : scope + "/") + std::string(op) + "_" + std::to_string(count));
  for (Value &input : inputs)
    node.add_input(std::move(input));
  std::vector<Value> results;
  Value base = nameOf(op);
  for (unsigned i = 0; i < outputs; ++i) {
    results.push_back(outputs == 1 ? base : base + "_" + std::to_string(i));
    node.add_output(results.back());
  }
  if (width != Width::Policy) {
    auto &property = *node.add_metadata_props();
    property.set_key("ztc.width");
    property.set_value(width == Width::Wide ? "f32" : "f32 parameters");
  }
  if (isDetached) {
    auto &property = *node.add_metadata_props();
    property.set_key("ztc.detached");
    property.set_value("true");
  }
  for (const NodeAttribute &from : attributes) {
    ::onnx::AttributeProto &to = *node.add_attribute();
    to.set_name(from.name);
    if (const auto *number = std::get_if<int64_t>(&from.value)) {
      to.set_type(::onnx::AttributeProto::INT);
      to.set_i(*number);
    } else if (const auto *real = std::get_if<float>(&from.value)) {
      to.set_type(::onnx::AttributeProto::FLOAT);
      to.set_f(*real);
    } else if (const auto *text = std::get_if<std::string>(&from.value)) {
      to.set_type(::onnx::AttributeProto::STRING);
      to.set_s(*text);
    } else {
      to.set_type(::onnx::AttributeProto::INTS);
      for (int64_t entry : std::get<std::vector<int64_t>>(from.value))
        to.add_ints(entry);
    }
  }
  return results;
}

GraphWriter::Value GraphWriter::add(std::string_view op, std::vector<Value> inputs,
                                    const std::vector<NodeAttribute> &attributes) {
  return addMany(op, std::move(inputs), 1, attributes).front();
}

void GraphWriter::noteCall(const std::string &text) {
  auto &nodes = *state->graph().mutable_node();
  auto &property = *nodes[nodes.size() - 1].add_metadata_props();
  property.set_key("pkg.torch.onnx.fx_node");
  property.set_value(text);
}

GraphWriter::Value GraphWriter::scalar(float value) {
  return state->constant(::onnx::TensorProto::FLOAT, {}, bytesOf(std::vector<float>{value}));
}

GraphWriter::Value GraphWriter::integer(int64_t value) {
  return state->constant(::onnx::TensorProto::INT64, {}, bytesOf(std::vector<int64_t>{value}));
}

GraphWriter::Value GraphWriter::integers(const std::vector<int64_t> &values) {
  return state->constant(::onnx::TensorProto::INT64, {int64_t(values.size())}, bytesOf(values));
}

GraphWriter::Value GraphWriter::floats(const std::vector<float> &values, const std::vector<int64_t> &shape) {
  return state->constant(::onnx::TensorProto::FLOAT, shape, bytesOf(values));
}

std::string GraphWriter::serialise(const std::string &filePrefix) const {
  try {
    ::onnx::ModelProto model = state->model;
    auto &signature = *model.mutable_graph()->add_metadata_props();
    signature.set_key("pkg.torch.export.ExportedProgram.graph_signature");
    signature.set_value(state->signature);
    if (!state->frozen.empty()) {
      auto &frozen = *model.mutable_graph()->add_metadata_props();
      frozen.set_key("ztc.frozen");
      frozen.set_value(state->frozen);
    }
    for (::onnx::TensorProto &tensor : *model.mutable_graph()->mutable_initializer())
      for (auto &entry : *tensor.mutable_external_data())
        if (entry.key() == "location")
          entry.set_value(filePrefix + entry.value());
    std::string bytes;
    return model.SerializeToString(&bytes) ? bytes : std::string();
  } catch (const std::exception &) {
    return {};
  }
}

} // namespace ztc::huggingface
