#include "frontends/onnx/InlineFunctions.h"
#include "onnx/inliner/inliner.h"
#include "onnx/onnx_pb.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>

namespace ztc::importer {
namespace {

/// Nodes and bytes of a graph after inlining, and how deep calls may lie in one another: some ten times what exporters
/// write for the largest models. A file of few nodes has less: each node of it may stand for kMostCopies.
constexpr uint64_t kMostNodes = 500'000, kLeastNodes = 10'000, kMostCopies = 500, kMostBytes = uint64_t(1) << 30;
constexpr unsigned kDeepestCall = 100;

struct Size {
  uint64_t nodes = 0, bytes = 0;
  void add(const Size &other) {
    nodes = llvm::SaturatingAdd(nodes, other.nodes);
    bytes = llvm::SaturatingAdd(bytes, other.bytes);
  }
};

/// Adds up what inlining would give, each function once.
class InlinedSize {
public:
  InlinedSize(const ::onnx::ModelProto &model, std::string &error) : error(error) {
    for (const ::onnx::FunctionProto &function : model.functions())
      functions[key(function.domain(), function.name(), function.overload())].proto = &function;
  }

  template <typename Nodes> bool measure(const Nodes &nodes, unsigned depth, Size &size) {
    if (depth > kDeepestCall)
      return fail("its functions and graphs lie more than " + std::to_string(kDeepestCall) + " deep in one another");
    for (const ::onnx::NodeProto &node : nodes)
      if (!measureNode(node, depth, size))
        return false;
    return true;
  }

private:
  struct Function {
    const ::onnx::FunctionProto *proto = nullptr;
    enum { New, Open, Done } state = New;
    Size size;
  };

  static std::string key(const std::string &domain, const std::string &name, const std::string &overload) {
    return domain + '\0' + name + '\0' + overload;
  }
  bool fail(std::string message) {
    error = std::move(message);
    return false;
  }

  bool measureNode(const ::onnx::NodeProto &node, unsigned depth, Size &size) {
    size.add({1, node.ByteSizeLong()});
    for (const ::onnx::AttributeProto &attribute : node.attribute()) {
      if (attribute.has_g() && !measure(attribute.g().node(), depth + 1, size))
        return false;
      for (const ::onnx::GraphProto &graph : attribute.graphs())
        if (!measure(graph.node(), depth + 1, size))
          return false;
    }
    auto found = functions.find(key(node.domain(), node.op_type(), node.overload()));
    if (found == functions.end())
      return true;
    Function &function = found->second;
    if (function.state == Function::Open)
      return fail("its function '" + node.op_type() + "' calls itself");
    if (function.state == Function::New) {
      function.state = Function::Open;
      if (!measure(function.proto->node(), depth + 1, function.size))
        return false;
      function.state = Function::Done;
    }
    size.add(function.size);
    return true;
  }

  llvm::StringMap<Function> functions;
  std::string &error;
};

/// Nodes that the graph may have, by those that the file has.
uint64_t mostNodes(const ::onnx::ModelProto &model) {
  uint64_t written = uint64_t(model.graph().node_size());
  for (const ::onnx::FunctionProto &function : model.functions())
    written += uint64_t(function.node_size());
  return std::clamp(written * kMostCopies, kLeastNodes, kMostNodes);
}

} // namespace

bool inlineFunctions(::onnx::ModelProto &model, std::string &error) {
  if (!model.functions_size())
    return true;
  Size size;
  if (!InlinedSize(model, error).measure(model.graph().node(), 0, size))
    return false;
  const uint64_t most = mostNodes(model);
  if (size.nodes > most || size.bytes > kMostBytes) {
    error = "its functions call one another so often that the graph would have more than " +
            std::to_string(size.nodes > most ? most : kMostBytes >> 20) + (size.nodes > most ? " nodes" : " MiB");
    return false;
  }
  ::onnx::inliner::InlineLocalFunctions(model);
  return true;
}

} // namespace ztc::importer
