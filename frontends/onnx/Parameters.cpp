#include "frontends/onnx/Parameters.h"
#include "frontends/onnx/HostTensor.h"
#include "frontends/onnx/PositionTables.h"
#include "frontends/onnx/StoredTensors.h"

using llvm::StringRef;

namespace ztc::importer {
namespace {

bool meetsData(const Node &node, unsigned index, const Liveness &fromTokens) {
  for (unsigned i = 0; i < node.inputs.size(); ++i)
    if (i != index && fromTokens.isLive(node.inputs[i]))
      return true;
  return false;
}

/// A matrix that a product or a lookup by token reads, or a vector that scales or shifts the last dimension of data.
bool isParameterUse(const Node &node, unsigned index, const Initializer &initializer) {
  size_t rank = initializer.shape.size();
  if (node.domain == "com.microsoft" && StringRef(node.op).ends_with("Attention"))
    return rank == 1 &&
           ((node.op == "GroupQueryAttention" && index == 11) || (node.op == "MultiHeadAttention" && index == 3));
  if (node.op == "MatMul" || node.op == "Gemm" || node.op == "FusedMatMul")
    return rank == 2 || (node.op == "Gemm" && index == 2);
  if (node.op == "Gather" || node.op == "GatherND") // by tokens; or the matrices of the experts that one was sent to
    return index == 0 && (rank == 2 || (rank > 2 && node.integer("axis", 0) == 0));
  if (node.op == "Mul" || node.op == "Add" || node.op == "BiasGelu" || node.op == "FastGelu")
    return rank == 1;
  return (StringRef(node.op).ends_with("Normalization")) && index >= 1;
}

/// Matrices of more dimensions that data are multiplied by: projections with their heads apart, experts. One without a
/// name may be a table that the exporter computed.
bool isStackOfMatrices(const Node &node, const Initializer &initializer, const Model &model, const Names &names) {
  return (node.op == "Einsum" || (node.op == "MatMul" && initializer.shape.size() > 2)) &&
         initializer.shape.size() >= 2 && !names.checkpointName(initializer.name).empty() &&
         !holdsAngles(model, initializer);
}

bool passesThrough(const Node &node) {
  return node.op == "Transpose" || node.op == "Identity" || node.op == "Cast" || node.op == "CastLike" ||
         node.op == "Reshape" || node.op == "Unsqueeze";
}

/// Ops that only take or arrange elements of a constant.
bool arranges(const Node &node) {
  return passesThrough(node) || node.op == "Expand" || node.op == "Slice" || node.op == "Squeeze" ||
         node.op == "Flatten" || node.op == "Split";
}

/// Ops of one tensor that models apply to a parameter before data meet it. Sines and cosines are not among them: what
/// they are taken of are frequencies.
bool isFunction(const Node &node) {
  static const llvm::StringSet<> ops{
      "Exp",  "Log",        "Sigmoid", "Tanh", "Softplus", "Neg",  "Sqrt",    "Reciprocal",
      "Abs",  "Softmax",    "Relu",    "Clip", "Pow",      "Mish", "Swish",   "HardSigmoid",
      "Gelu", "LogSoftmax", "Elu",     "Add",  "Sub",      "Mul",  "Div",     "ReduceSum",
      "Sum",  "ReduceMean", "Sign",    "Min",  "Max",      "Erf",  "ReduceL2"};
  return ops.contains(node.op);
}

/// Whether a gradient goes through the node. Sines and cosines end the way: see `isFunction`.
bool passesGradient(const Node &node) {
  static const llvm::StringSet<> ends{
      "Sin",   "Cos",   "Shape", "Size",   "Equal",  "Less",    "LessOrEqual", "Greater", "GreaterOrEqual",
      "And",   "Or",    "Not",   "Xor",    "Floor",  "Ceil",    "Round",       "Sign",    "ArgMax",
      "IsNaN", "IsInf", "Range", "ArgMin", "OneHot", "NonZero", "EyeLike",     "Mod",     "ConstantOfShape"};
  if (node.op == "Cast")
    return isFloat(ElementType(int(node.integer("to", 1))));
  return !ends.contains(node.op);
}

/// Ops that combine numbers: comparisons, selections and lookups only ask for them.
bool computes(const Node &node) {
  return node.op == "Add" || node.op == "Sub" || node.op == "Mul" || node.op == "Div" || node.op == "Concat" ||
         node.op == "MatMul" || node.op == "Gemm" || node.op == "Einsum" || node.op == "Pow" || node.op == "Sum" ||
         node.op == "PRelu" || node.op == "Conv" || node.op == "CausalConvWithState" || node.op == "Gather" ||
         node.op == "GatherND";
}

/// Dynamo's text of aten.group_norm(x, groups, weight, bias, ...), of which several nodes are made; "" of another call.
StringRef groupNormArguments(const Node &node) {
  StringRef text = node.fxNode;
  constexpr StringRef kCall = "target=torch.ops.aten.group_norm.default](args = (";
  const size_t at = text.find(kCall);
  return at == StringRef::npos ? StringRef() : text.drop_front(at + kCall.size());
}

/// In the nodes of a call of group_norm: the ones and zeros of each group that its InstanceNormalization has, and
/// those of each channel where the call has no weight or no bias.
bool standsForNothingInGroups(const Node &node, unsigned index, StringRef arguments) {
  if (node.op == "InstanceNormalization")
    return index >= 1;
  llvm::SmallVector<StringRef> operands;
  arguments.split(operands, ", ");
  const size_t place = node.op == "Mul" ? 2 : node.op == "Add" ? 3 : operands.size();
  return place >= operands.size() || operands[place] == "None";
}

/// What exporters write where a norm has no weight or bias: ones or zeros, which TorchScript names by the node's path
/// and dynamo by a number. A parameter, fresh or not, is an initializer under its own name, or the node names it.
bool standsForNothing(const Node &node, unsigned index, const Initializer &initializer, const Names &names) {
  const StringRef groups = groupNormArguments(node);
  if ((groups.empty() && !StringRef(node.op).ends_with("Normalization")) || initializer.isExternal)
    return false;
  bool saysWithout = !node.fxNode.empty() && !StringRef(node.fxNode).contains("%p_");
  if (!groups.empty())
    saysWithout = standsForNothingInGroups(node, index, groups);
  bool isUnnamed = StringRef(initializer.name).starts_with("/") ||
                   (saysWithout && names.checkpointName(initializer.name).empty() &&
                    (!groups.empty() ||
                     names.kindOfTensor(names.parameterOf(node, index, initializer).name) == Names::Kind::Buffer));
  return isUnnamed && HostTensor::fromInitializer(initializer).isSplat();
}

} // namespace

FoundParameters findParameters(const Model &model, Names &names, const Liveness &fromTokens,
                               const std::string &weights) {
  FoundParameters found;
  // value -> the initializer it is, up to transposes and casts; those it is computed from, and from nothing else
  llvm::StringMap<const Initializer *> candidates;
  llvm::StringMap<llvm::SmallVector<const Initializer *, 1>> arranged;
  llvm::StringMap<llvm::SetVector<const Initializer *>> placed; // computed from them and from positions
  for (const Initializer &initializer : model.initializers) {
    if (!isFloat(initializer.type))
      continue;
    Names::Kind kind = names.kindOf(initializer);
    if (kind == Names::Kind::Parameter || initializer.isRestored)
      found.names.insert(initializer.name);
    else if (kind == Names::Kind::Unknown)
      arranged[initializer.name] = {&initializer};
    if (kind == Names::Kind::Unknown && initializer.count() > 1)
      candidates[initializer.name] = &initializer;
  }
  std::vector<const Initializer *> open;
  for (const Node &node : model.nodes)
    for (unsigned i = 0; i < node.inputs.size(); ++i) {
      bool isData = meetsData(node, i, fromTokens);
      if (const Initializer *initializer = candidates.lookup(node.inputs[i])) {
        if (isData && (isParameterUse(node, i, *initializer) || isStackOfMatrices(node, *initializer, model, names)) &&
            !standsForNothing(node, i, *initializer, names))
          found.names.insert(initializer->name);
        else if (i == 0 && passesThrough(node))
          candidates[node.outputs[0]] = initializer;
      }
      const bool isOfConstants = isFunction(node) && llvm::all_of(node.inputs, [&](const std::string &input) {
                                   return input.empty() || arranged.contains(input) || model.initializer(input);
                                 });
      for (const Initializer *initializer : arranged.lookup(node.inputs[i]))
        if (isData && computes(node) && !llvm::is_contained(open, initializer))
          open.push_back(initializer);
        else if (!isData && ((i == 0 && arranges(node)) || isOfConstants))
          for (const std::string &output : node.outputs)
            arranged[output].push_back(initializer);
        else if (!isData && passesGradient(node))
          for (const std::string &output : node.outputs)
            placed[output].insert(initializer);
      if (auto known = placed.find(node.inputs[i]); known != placed.end() && passesGradient(node)) {
        const std::vector<const Initializer *> initializers(known->second.begin(), known->second.end());
        for (const Initializer *initializer : initializers)
          if (isData && !llvm::is_contained(found.uncertain, initializer))
            found.uncertain.push_back(initializer);
          else if (!isData)
            for (const std::string &output : node.outputs)
              placed[output].insert(initializer);
      }
    }
  addPositionTables(model, names, found.names);
  StoredTensors stored(model, names, weights);
  for (const Initializer *initializer : open) {
    if (found.names.contains(initializer->name))
      continue;
    const std::vector<std::string> tensors = stored.namesOf(*initializer);
    if (!tensors.empty() && names.tellOneOf(*initializer, tensors)) {
      found.names.insert(initializer->name);
    } else if (initializer->count() > 1 || !names.checkpointName(initializer->name).empty()) {
      found.constants.push_back(initializer);
    }
  }
  llvm::erase_if(found.uncertain, [&](const Initializer *initializer) {
    return found.names.contains(initializer->name) || names.checkpointName(initializer->name).empty();
  });
  return found;
}

} // namespace ztc::importer
