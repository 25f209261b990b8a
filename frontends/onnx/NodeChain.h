// Nodes that compute a value where the file has a constant.
#pragma once
#include "frontends/onnx/Model.h"

namespace ztc::importer {

/// Nodes in front of all others of a model, under construction; their names begin with the constant's.
class NodeChain {
public:
  NodeChain(Model &model, const std::string &constant) : model(model), value(constant + "/computed") {}

  /// One node of one result; returns its name.
  std::string add(const char *op, std::vector<std::string> inputs) {
    Node node;
    node.op = node.signature = op;
    node.name = nextName();
    node.inputs = std::move(inputs);
    node.outputs = {node.name};
    nodes.push_back(std::move(node));
    return nodes.back().name;
  }
  void set(const char *attribute, int64_t number) {
    Attribute &to = nodes.back().attributes[attribute];
    to.kind = Attribute::Kind::Int;
    to.integer = number;
  }
  std::string transpose(const std::string &matrix) {
    std::string name = add("Transpose", {matrix});
    Attribute &order = nodes.back().attributes["perm"];
    order.kind = Attribute::Kind::Ints;
    order.integers = {1, 0};
    return name;
  }
  std::string reshape(const std::string &tensor, llvm::ArrayRef<int64_t> shape) {
    return add("Reshape", {tensor, integers(shape)});
  }
  std::string integers(llvm::ArrayRef<int64_t> numbers) {
    return model.addIntegers(value + "/integers" + std::to_string(count++), numbers).name;
  }
  std::string real(ElementType type, double number) {
    return model.addReal(value + "/number" + std::to_string(count++), type, number).name;
  }
  std::string reals(ElementType type, llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<double> numbers) {
    return model.addReals(value + "/numbers" + std::to_string(count++), type, shape, numbers).name;
  }
  /// Puts the nodes in front of the model's, and the last one's result in the constant's place.
  void finish(const std::string &constant) {
    nodes.back().outputs = {value};
    for (Node &node : model.nodes)
      for (std::string &input : node.inputs)
        if (input == constant)
          input = value;
    model.nodes.insert(model.nodes.begin(), nodes.begin(), nodes.end());
    model.indexProducers();
  }

private:
  std::string nextName() { return value + "/" + std::to_string(count++); }

  Model &model;
  std::string value;
  std::vector<Node> nodes;
  unsigned count = 0;
};

} // namespace ztc::importer
