#include "frontends/onnx/InlineBranches.h"
#include "onnx/onnx_pb.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace ztc::importer {
namespace {

using Nodes = google::protobuf::RepeatedPtrField<::onnx::NodeProto>;
using NameMap = llvm::StringMap<std::string>;

std::string renamed(const NameMap &names, const std::string &name) {
  auto found = names.find(name);
  return found == names.end() ? name : found->second;
}

/// What graphs inside of a node read of the graph around them.
void renameCaptured(::onnx::NodeProto &node, const NameMap &names) {
  for (::onnx::AttributeProto &attribute : *node.mutable_attribute())
    if (attribute.has_g())
      for (::onnx::NodeProto &inner : *attribute.mutable_g()->mutable_node()) {
        for (std::string &input : *inner.mutable_input())
          input = renamed(names, input);
        renameCaptured(inner, names);
      }
}

class BranchInliner {
public:
  BranchInliner(::onnx::GraphProto &graph, std::string &error) : graph(graph), error(error) {
    for (const auto &input : graph.input())
      taken.insert(input.name());
    for (const auto &initializer : graph.initializer())
      taken.insert(initializer.name());
    for (const ::onnx::NodeProto &node : graph.node())
      taken.insert(node.output().begin(), node.output().end());
  }

  bool run() {
    Nodes nodes;
    if (!emit(*graph.mutable_node(), {}, nodes))
      return false;
    graph.mutable_node()->Swap(&nodes);
    return true;
  }

private:
  bool emit(Nodes &from, const NameMap &names, Nodes &to) {
    for (::onnx::NodeProto &node : from) {
      for (std::string &input : *node.mutable_input())
        input = renamed(names, input);
      for (std::string &output : *node.mutable_output())
        output = renamed(names, output);
      if (node.op_type() == "If" && (node.domain().empty() || node.domain() == "ai.onnx")) {
        if (!emitIf(node, names, to))
          return false;
        continue;
      }
      renameCaptured(node, names);
      to.Add()->Swap(&node);
    }
    return true;
  }

  bool emitIf(::onnx::NodeProto &node, const NameMap &names, Nodes &to) {
    std::vector<std::string> values[2];
    for (::onnx::AttributeProto &attribute : *node.mutable_attribute())
      if (attribute.has_g() && (attribute.name() == "then_branch" || attribute.name() == "else_branch"))
        if (!emitBranch(*attribute.mutable_g(), names, values[attribute.name() == "else_branch"], to))
          return false;
    const size_t count = size_t(node.output_size());
    if (node.input_size() != 1 || values[0].size() != count || values[1].size() != count) {
      error = "node '" + node.name() + "' (If) needs one condition, and two branches with as many outputs as it has";
      return false;
    }
    for (size_t i = 0; i < count; ++i) {
      if (node.output(int(i)).empty())
        continue;
      ::onnx::NodeProto &choice = *to.Add();
      choice.set_name(node.name());
      choice.set_domain("ztc");
      choice.set_op_type("Choose");
      choice.add_input(node.input(0));
      choice.add_input(values[0][i]);
      choice.add_input(values[1][i]);
      choice.add_output(node.output(int(i)));
    }
    return true;
  }

  bool emitBranch(::onnx::GraphProto &branch, NameMap names, std::vector<std::string> &results, Nodes &to) {
    for (::onnx::TensorProto &initializer : *branch.mutable_initializer()) {
      initializer.set_name(names[initializer.name()] = fresh(initializer.name()));
      graph.add_initializer()->Swap(&initializer);
    }
    for (const ::onnx::NodeProto &node : branch.node())
      for (const std::string &output : node.output())
        if (!output.empty())
          names[output] = fresh(output);
    if (!emit(*branch.mutable_node(), names, to))
      return false;
    for (const auto &output : branch.output())
      results.push_back(renamed(names, output.name()));
    return true;
  }

  /// The name itself where it is free.
  std::string fresh(const std::string &name) {
    std::string result = name;
    while (!taken.insert(result).second)
      result = name + "/branch" + std::to_string(++counter);
    return result;
  }

  ::onnx::GraphProto &graph;
  std::string &error;
  llvm::StringSet<> taken;
  unsigned counter = 0;
};

} // namespace

bool inlineBranches(::onnx::ModelProto &model, std::string &error) {
  return BranchInliner(*model.mutable_graph(), error).run();
}

} // namespace ztc::importer
