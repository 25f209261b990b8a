#include "frontends/onnx/CheckNodes.h"
#include "llvm/ADT/Twine.h"
#include <set>

using llvm::StringRef;
using llvm::Twine;

namespace ztc::importer {
namespace {

using Option = OperatorSchema::Option;

/// Inputs without the empty names at the end, which stand for nothing.
size_t usedCount(const std::vector<std::string> &names) {
  size_t count = names.size();
  while (count && names[count - 1].empty())
    --count;
  return count;
}

std::string countText(size_t count, StringRef what) {
  return (Twine(count) + " " + what + (count == 1 ? "" : "s")).str();
}

/// "has 1 input, the operator needs 2"; empty where the count fits.
std::string findCountProblem(size_t count, unsigned least, unsigned most, StringRef what) {
  if (count < least)
    return "has " + countText(count, what) + ", the operator needs " + std::to_string(least);
  if (count > most)
    return "has " + countText(count, what) + ", the operator has at most " + std::to_string(most);
  return "";
}

StringRef kindName(Attribute::Kind kind) {
  switch (kind) {
  case Attribute::Kind::Float:
    return "a float";
  case Attribute::Kind::Int:
    return "an integer";
  case Attribute::Kind::String:
    return "a string";
  case Attribute::Kind::Tensor:
    return "a tensor";
  case Attribute::Kind::Floats:
    return "a list of floats";
  case Attribute::Kind::Ints:
    return "a list of integers";
  case Attribute::Kind::Graph:
    return "a graph";
  case Attribute::Kind::Other:
    break;
  }
  return "of a type that ztc does not read";
}

std::string typeNames(TypeSet types) {
  std::string text;
  for (unsigned bit = 1; bit < 32; ++bit)
    if (types >> bit & 1 && elementBytes(ElementType(bit)))
      text += (text.empty() ? "" : ", ") + elementName(ElementType(bit)).str();
  return text.empty() ? "other types" : text;
}

std::string inputText(size_t index, const OperatorSchema::Formal &formal) {
  return "input " + std::to_string(index) + " (" + formal.name + ")";
}

/// The only type of a set, or Undefined.
ElementType onlyType(TypeSet types) {
  for (unsigned bit = 1; bit < 32; ++bit)
    if (types == TypeSet(1) << bit)
      return ElementType(bit);
  return ElementType::Undefined;
}

/// Types that stand in an attribute or come from an operand in a way that no type variable says.
ElementType typeByAttribute(const Node &node, llvm::ArrayRef<ElementType> inputs) {
  if (node.signature == "Cast")
    return ElementType(node.integer("to", 0));
  if (node.signature == "CastLike")
    return inputs.size() > 1 ? inputs[1] : ElementType::Undefined;
  if (node.signature == "ConstantOfShape") {
    auto value = node.attributes.find("value");
    return value != node.attributes.end() && value->second.tensor ? value->second.tensor->type : ElementType::F32;
  }
  return ElementType::Undefined;
}

} // namespace

std::string findFormProblem(const Node &node, const OperatorSchema &schema) {
  size_t inputs = usedCount(node.inputs), outputs = usedCount(node.outputs);
  if (std::string problem = findCountProblem(inputs, schema.minInputs, schema.maxInputs, "input"); !problem.empty())
    return problem;
  if (std::string problem = findCountProblem(outputs, schema.minOutputs, schema.maxOutputs, "output"); !problem.empty())
    return problem;
  for (size_t i = 0; i < inputs; ++i) {
    const OperatorSchema::Formal *formal = OperatorSchema::formalOf(schema.inputs, i);
    if (formal && formal->option == Option::Single && node.inputs[i].empty())
      return inputText(i, *formal) + " is left out, but the operator needs it";
  }
  for (const auto &entry : schema.attributes) {
    auto found = node.attributes.find(entry.first());
    if (found == node.attributes.end()) {
      if (entry.second.required)
        return ("lacks the attribute '" + entry.first() + "'").str();
      continue;
    }
    if (found->second.kind != entry.second.kind)
      return ("attribute '" + entry.first() + "' is " + kindName(found->second.kind) + ", not " +
              kindName(entry.second.kind))
          .str();
  }
  return "";
}

std::string findTypeProblem(const Node &node, const OperatorSchema &schema, llvm::ArrayRef<ElementType> inputs,
                            llvm::SmallVectorImpl<ElementType> *outputs) {
  struct Bound {
    ElementType type;
    size_t index;
  };
  llvm::SmallDenseMap<int, Bound> variables;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const OperatorSchema::Formal *formal = OperatorSchema::formalOf(schema.inputs, i);
    if (!formal || inputs[i] == ElementType::Undefined || unsigned(inputs[i]) >= 32)
      continue;
    if (!(formal->types & typeBit(inputs[i])))
      return inputText(i, *formal) + " has type " + elementName(inputs[i]).str() + ", the operator takes " +
             typeNames(formal->types);
    if (formal->variable < 0)
      continue;
    auto [bound, isNew] = variables.try_emplace(formal->variable, Bound{inputs[i], i});
    if (!isNew && bound->second.type != inputs[i])
      return inputText(bound->second.index, *OperatorSchema::formalOf(schema.inputs, bound->second.index)) + " and " +
             inputText(i, *formal) + " have types " + elementName(bound->second.type).str() + " and " +
             elementName(inputs[i]).str() + ", the operator needs one type";
  }
  for (size_t i = 0; outputs && i < node.outputs.size(); ++i) {
    const OperatorSchema::Formal *formal = OperatorSchema::formalOf(schema.outputs, i);
    ElementType type = i == 0 ? typeByAttribute(node, inputs) : ElementType::Undefined;
    if (formal && type == ElementType::Undefined) {
      auto bound = variables.find(formal->variable);
      type = bound != variables.end() ? bound->second.type : onlyType(formal->types);
    }
    outputs->push_back(type);
  }
  return "";
}

/// Of a node that does not fit its operator because a graph's input has real numbers where whole ones belong.
static std::string inputAdvice(const Model &model, const Node &node, const OperatorSchema &schema,
                               llvm::ArrayRef<ElementType> types) {
  for (const GraphValue &input : model.inputs)
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const OperatorSchema::Formal *formal = OperatorSchema::formalOf(schema.inputs, i);
      if (formal && node.inputs[i] == input.name && isFloat(types[i]) && !(formal->types & typeBit(types[i])) &&
          formal->types & typeBit(ElementType::I64))
        return "; '" + input.name +
               "' is an input of the graph: export the model with whole numbers (torch.int64) there";
    }
  return "";
}

bool checkNodes(Model &model, std::string &error) {
  llvm::StringMap<ElementType> types;
  for (const Initializer &initializer : model.initializers)
    types[initializer.name] = initializer.type;
  for (const GraphValue &input : model.inputs)
    types[input.name] = input.type;
  std::set<std::string> unknown;
  for (const Node &node : model.nodes) {
    const OperatorSchema *schema = model.schemaOf(node);
    if (!schema)
      continue; // no operator that ztc knows: reported with all others of the kind
    for (const auto &attribute : node.attributes)
      if (!schema->attributes.count(attribute.first()))
        unknown.insert((node.signature + " has no attribute '" + attribute.first() + "': it is passed over").str());
    llvm::SmallVector<ElementType> inputs, outputs;
    for (const std::string &input : node.inputs)
      inputs.push_back(types.lookup(input));
    std::string problem = findFormProblem(node, *schema);
    if (problem.empty())
      problem = findTypeProblem(node, *schema, inputs, &outputs) + inputAdvice(model, node, *schema, inputs);
    if (!problem.empty()) {
      error = "node '" + node.label() + "' (" + node.signature + ") " + problem;
      return false;
    }
    for (auto [name, type] : llvm::zip(node.outputs, outputs))
      if (!name.empty())
        types[name] = type;
  }
  model.notes.insert(model.notes.end(), unknown.begin(), unknown.end());
  return true;
}

} // namespace ztc::importer
