#include "NodeCase.h"
#include "onnx/onnx_pb.h"
#include <fstream>
#include <map>
#include <sstream>
#include <unistd.h>

using namespace ztc::importer;
namespace fs = std::filesystem;

namespace ztc::test {
namespace {

std::string readFile(const fs::path &path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// The tensor as the importer's reader sees it: as an initializer of a model.
TensorRef toHost(const ::onnx::TensorProto &proto, const fs::path &scratch) {
  ::onnx::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(21);
  *model.mutable_graph()->add_initializer() = proto;
  model.mutable_graph()->mutable_initializer(0)->set_name("x");
  model.mutable_graph()->set_name("tensor");
  auto *node = model.mutable_graph()->add_node(); // a model without nodes is refused
  node->set_op_type("Identity");
  node->add_input("x");
  node->add_output("y");
  model.mutable_graph()->add_output()->set_name("y");
  std::ofstream(scratch, std::ios::binary) << model.SerializeAsString();
  std::string error;
  auto read = readModel(scratch, error);
  if (!read || !read->initializer("x"))
    return nullptr;
  return std::make_shared<HostTensor>(HostTensor::fromInitializer(*read->initializer("x")));
}

bool isReadable(const ::onnx::ValueInfoProto &info) {
  return info.type().has_tensor_type() && elementBytes(static_cast<ElementType>(info.type().tensor_type().elem_type()));
}

/// Inputs that are floats and decide what an op does, not what it computes with.
bool isSetting(const ::onnx::GraphProto &graph, const std::string &input) {
  for (const auto &node : graph.node())
    for (int i = 0; i < node.input_size(); ++i)
      if (node.input(i) == input && (node.op_type() == "Range" || (node.op_type() == "OneHot" && i == 1) ||
                                     (node.op_type() == "Dropout" && i == 1)))
        return true;
  return false;
}

/// Inputs of single ops that models compute: indices, targets, masks.
bool isIndexInput(const ::onnx::GraphProto &graph, const std::string &input) {
  static const std::map<std::string, std::set<int>> places = {{"Gather", {1}},
                                                              {"GatherElements", {1}},
                                                              {"GatherND", {1}},
                                                              {"ScatterElements", {1}},
                                                              {"ScatterND", {1}},
                                                              {"OneHot", {0}},
                                                              {"Where", {0}},
                                                              {"NegativeLogLikelihoodLoss", {1}},
                                                              {"SoftmaxCrossEntropyLoss", {1}},
                                                              {"RotaryEmbedding", {3}},
                                                              {"Attention", {3, 6}}};
  if (graph.node_size() != 1)
    return false;
  const auto &node = graph.node(0);
  auto found = places.find(node.op_type());
  for (int i = 0; i < node.input_size(); ++i)
    if (node.input(i) == input && found != places.end() && found->second.count(i))
      return true;
  return false;
}

void collectOps(const ::onnx::GraphProto &graph, std::set<std::string> &signatures) {
  for (const auto &node : graph.node()) {
    signatures.insert(node.domain().empty() ? node.op_type() : node.domain() + "::" + node.op_type());
    for (const auto &attribute : node.attribute())
      if (attribute.has_g())
        collectOps(attribute.g(), signatures);
  }
}

} // namespace

std::optional<NodeCase> NodeCase::load(const fs::path &folder) {
  NodeCase result;
  ::onnx::ModelProto model;
  result.modelBytes = readFile(folder / "model.onnx");
  if (!model.ParseFromString(result.modelBytes))
    return std::nullopt;
  collectOps(model.graph(), result.signatures);
  for (const auto *list : {&model.graph().input(), &model.graph().output()})
    for (const auto &info : *list)
      if (!isReadable(info))
        return std::nullopt;
  fs::path data = folder / "test_data_set_0";
  fs::path scratch = fs::temp_directory_path() / ("ztc-node-tensor-" + std::to_string(getpid()) + ".onnx");
  auto tensor = [&](const fs::path &file, std::string *bytes) -> TensorRef {
    ::onnx::TensorProto proto;
    std::string text = readFile(file);
    if (text.empty() || !proto.ParseFromString(text))
      return nullptr;
    if (bytes)
      *bytes = text;
    return toHost(proto, scratch);
  };
  for (int i = 0; i < model.graph().input_size(); ++i) {
    std::string bytes;
    TensorRef value = tensor(data / ("input_" + std::to_string(i) + ".pb"), &bytes);
    if (!value)
      return std::nullopt;
    result.inputNames.push_back(model.graph().input(i).name());
    result.inputBytes.push_back(bytes);
    result.isFloat.push_back(importer::isFloat(value->type) && !isSetting(model.graph(), result.inputNames.back()));
    result.isIndex.push_back(!result.isFloat.back() && isIndexInput(model.graph(), result.inputNames.back()));
    result.inputValues.push_back(value);
  }
  for (int i = 0; i < model.graph().output_size(); ++i)
    result.outputs.push_back(tensor(data / ("output_" + std::to_string(i) + ".pb"), nullptr));
  std::error_code ignored;
  fs::remove(scratch, ignored);
  return result;
}

bool NodeCase::hasData(Known known) const {
  for (size_t i = 0; i < isFloat.size(); ++i)
    if (isData(i, known) && (known != Known::Settings || isIndex[i]))
      return true;
  return false;
}

BoundModel NodeCase::bind(Known known, const fs::path &scratch, std::string &error) const {
  BoundModel bound;
  ::onnx::ModelProto model;
  model.ParseFromString(modelBytes);
  auto *graph = model.mutable_graph();
  auto infos = graph->input();
  graph->clear_input();
  for (size_t i = 0; i < inputNames.size(); ++i) {
    if (isData(i, known)) {
      auto *info = graph->add_input();
      *info = infos[int(i)];
      auto *shape = info->mutable_type()->mutable_tensor_type()->mutable_shape();
      shape->clear_dim();
      for (int64_t size : inputValues[i]->shape)
        shape->add_dim()->set_dim_value(size);
      bound.inputs.push_back(inputValues[i]);
      continue;
    }
    auto *initializer = graph->add_initializer();
    initializer->ParseFromString(inputBytes[i]);
    initializer->set_name(inputNames[i]);
  }
  std::ofstream(scratch, std::ios::binary) << model.SerializeAsString();
  bound.model = readModel(scratch, error);
  return bound;
}

} // namespace ztc::test
