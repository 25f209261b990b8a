#include "frontends/onnx/Emitter.h"
#include "compiler/Dialect/Graph/Cache.h"
#include "compiler/Dialect/Graph/Detached.h"
#include "compiler/Dialect/Graph/Roles.h"
#include "frontends/onnx/HostConstants.h"
#include "frontends/onnx/WeightForm.h"
#include "llvm/ADT/Twine.h"
#include <set>

using namespace mlir;

namespace ztc::importer {

EmitFunction emissionOf(StringRef signature) {
  static const llvm::StringMap<EmitFunction> table = [] {
    llvm::StringMap<EmitFunction> functions;
    addElementwiseEmission(functions);
    addShapeEmission(functions);
    addActivationEmission(functions);
    addReductionEmission(functions);
    addProductEmission(functions);
    addNormalizationEmission(functions);
    addIndexEmission(functions);
    addScatterEmission(functions);
    addSelectionEmission(functions);
    addAttentionEmission(functions);
    addRecurrenceEmission(functions);
    addLossEmission(functions);
    addContribEmission(functions);
    return functions;
  }();
  return table.lookup(signature);
}

Emitter::Emitter(ModuleOp module, const Model &model, const Names &names, const Liveness &liveness, Binding binding,
                 bool isSymbolic, ImportReport &report)
    : builder(module.getContext()), loc(builder.getUnknownLoc()), model(model), names(names), liveness(liveness),
      evaluator(model, liveness, binding), masks(model, liveness, binding, isSymbolic), report(report),
      binding(binding) {
  builder.setInsertionPointToEnd(module.getBody());
  SmallVector<Type> types;
  SmallVector<std::pair<StringRef, graph::Role>> arguments; // name, role
  for (const GraphValue &input : model.inputs) {
    InputRole role = liveness.roles.lookup(input.name).role;
    if (role == InputRole::Tokens) {
      types.push_back(RankedTensorType::get({binding.batch, binding.sequence}, builder.getI32Type()));
      arguments.push_back({input.name, graph::Role::Tokens});
    } else if (role == InputRole::Data) {
      types.push_back(RankedTensorType::get(input.shape, elementType(input.type)));
      arguments.push_back({input.name, graph::Role::Data});
    }
  }
  forward = func::FuncOp::create(builder, loc, "forward", builder.getFunctionType(types, {}));
  graph::setEntry(forward, graph::Entry::Forward);
  Block *body = forward.addEntryBlock();
  builder.setInsertionPointToEnd(body);
  for (auto [i, argument] : llvm::enumerate(arguments)) {
    argumentAttributes.push_back(builder.getDictionaryAttr(graph::namedRole(builder.getContext(), argument.second)));
    values[argument.first] = body->getArgument(i);
  }
}

Emitter::Emitter(ModuleOp module, const Model &model, const Names &names, const Evaluator &known, ImportReport &report)
    : builder(module.getContext()), loc(builder.getUnknownLoc()), model(model), names(names), liveness(known.live()),
      evaluator(known), masks(model, known.live(), known.binding(), /*isSymbolic=*/false), report(report),
      binding(known.binding()), readsMasks(false) {
  builder.setInsertionPointToEnd(module.getBody());
  forward = func::FuncOp::create(builder, loc, "forward", builder.getFunctionType({}, {}));
  graph::setEntry(forward, graph::Entry::Forward);
  builder.setInsertionPointToEnd(forward.addEntryBlock());
}

LogicalResult Emitter::fail(const llvm::Twine &message) {
  return emitError(UnknownLoc::get(builder.getContext()))
         << model.path << ": node '" << node->label() << "' (" << node->signature << "): " << message;
}

mlir::Value Emitter::failValue(const llvm::Twine &message) {
  (void)fail(message);
  return nullptr;
}

const KnownValue &Emitter::input(unsigned index) {
  static const KnownValue none;
  const KnownValue *value = node->hasInput(index) ? evaluator.shapeOf(node->inputs[index]) : nullptr;
  return value ? *value : none;
}

const KnownValue &Emitter::output(unsigned index) {
  static const KnownValue none;
  const KnownValue *value = evaluator.shapeOf(node->outputs[index]);
  return value ? *value : none;
}

Type Emitter::elementType(ElementType type) {
  if (isFloat(type))
    return builder.getF32Type(); // one real type until the phase `precision`
  return type == ElementType::Bool ? builder.getI1Type() : builder.getI32Type();
}

void Emitter::define(unsigned outputIndex, mlir::Value value) {
  if (!hasOutput(outputIndex))
    return;
  values[node->outputs[outputIndex]] = value;
}

TensorRef Emitter::constant(unsigned index) {
  TensorRef tensor = node->hasInput(index) ? evaluator.valueOf(node->inputs[index]) : nullptr;
  if (!tensor)
    (void)fail(evaluator.error().empty() ? "input " + llvm::Twine(index) + " depends on data"
                                         : llvm::Twine(evaluator.error()));
  return tensor;
}

SmallVector<int64_t> Emitter::integers(unsigned index, StringRef attribute) {
  SmallVector<int64_t> result(node->integers(attribute));
  if (node->hasInput(index))
    if (TensorRef tensor = constant(index)) {
      result.clear();
      for (int64_t i = 0, n = tensor->count(); i < n; ++i)
        result.push_back(tensor->integer(i));
    }
  return result;
}

/// Whether all elements are equal; false where they are not there.
static bool hasEqualElements(const Initializer &initializer, const Model &model) {
  TensorView view = viewOf(model, initializer);
  return !view.bytes.empty() && view.isConstant();
}

std::optional<unsigned> Emitter::parameterIndexOf(unsigned index, const Initializer &initializer,
                                                  const ParameterName &found) {
  auto [place, isNew] = parameterIndex.try_emplace({&initializer, found.name}, params.size());
  if (!isNew)
    return place->second;
  // A matrix read under two names is tied (embedding and head); equal vectors were merged by the exporter and part
  // again, and so do fresh biases of experts, scales of heads and the like: all their elements are equal.
  if (initializer.shape.size() >= 2 && !found.isApart && !hasEqualElements(initializer, model))
    if (auto same = parameterOfData.find({&initializer, found.transposed}); same != parameterOfData.end()) {
      params[same->second].tied.push_back(found.name);
      return place->second = same->second;
    }
  // Where a model runs one layer several times, dynamo may fold the transpose of its matrix for each.
  auto isRepeated = [&](const Parameter &other) {
    return other.transposed == found.transposed && other.initializer->shape == initializer.shape &&
           other.initializer->type == initializer.type && model.haveSameBytes(*other.initializer, initializer);
  };
  if (auto named = parameterOfName.find(found.name); named != parameterOfName.end()) {
    Parameter &other = params[named->second];
    if (isRepeated(other)) {
      other.places.push_back({&initializer, found.transposed, {}});
      return place->second = named->second;
    }
    (void)fail("reads '" + initializer.name + "' as '" + found.name + "', which stands for '" +
               other.initializer->name +
               "' elsewhere: the exporter computed them; export again with optimize=False (dynamo) or "
               "do_constant_folding=False (TorchScript)");
    return std::nullopt;
  }
  SmallVector<int64_t> shape(initializer.shape);
  if (found.transposed)
    std::swap(shape[0], shape[1]);
  auto type = RankedTensorType::get(shape, elementType(initializer.type));
  NamedAttrList attributes;
  attributes.push_back(graph::namedRole(builder.getContext(), graph::Role::Parameter));
  attributes.set(graph::kName, builder.getStringAttr(found.name));
  if (model.frozen.contains(initializer.name))
    attributes.set(graph::kFrozen, builder.getUnitAttr());
  argumentAttributes.push_back(attributes.getDictionary(builder.getContext()));
  BlockArgument argument = forward.getBody().front().addArgument(type, NameLoc::get(builder.getStringAttr(found.name)));
  parameterOfName.try_emplace(found.name, params.size());
  parameterOfData.try_emplace({&initializer, found.transposed}, params.size());
  params.push_back({found.name, {}, &initializer, found.transposed, argument, "", 0, {}, {}});
  params.back().places.push_back({&initializer, found.transposed, {}});
  return place->second;
}

mlir::Value Emitter::parameter(unsigned index, bool &transposed) {
  const Initializer &initializer = *model.initializer(node->inputs[index]);
  ParameterName found = names.parameterOf(*node, index, initializer);
  transposed = found.transposed;
  std::optional<unsigned> known = parameterIndexOf(index, initializer, found);
  if (!known)
    return nullptr;
  auto &places = params[*known].places;
  auto isHere = [&](const ParameterPlace &place) { return place.initializer == &initializer; };
  llvm::find_if(places, isHere)->readers.push_back({node->outputs[0], index});
  return params[*known].argument;
}

mlir::Value Emitter::matrixOperand(unsigned index, bool &transposed) {
  transposed = false;
  if (node->hasInput(index) && liveness.parameters.contains(node->inputs[index]))
    return parameter(index, transposed);
  return operand(index);
}

mlir::Value Emitter::operand(unsigned index) {
  const std::string &name = node->inputs[index];
  if (auto found = values.find(name); found != values.end())
    return found->second;
  if (liveness.parameters.contains(name)) {
    bool transposed = false;
    mlir::Value value = parameter(index, transposed);
    return value && transposed ? transposeTo(builder, loc, value, {1, 0}) : value;
  }
  if (liveness.isLive(name))
    return failValue("input '" + name + "' was not emitted");
  return constantValue(name, input(index).shape);
}

mlir::Value Emitter::operand(unsigned index, ArrayRef<int64_t> shape) {
  mlir::Value value = operand(index);
  return value ? broadcastTo(builder, loc, value, shape) : value;
}

mlir::Value Emitter::constantValue(StringRef name, ArrayRef<int64_t> shape) {
  auto [cached, isNew] = constants.try_emplace(name);
  if (!isNew)
    return cached->second;
  const KnownValue *value = evaluator.shapeOf(name);
  if (!value)
    return failValue(evaluator.error());
  OpBuilder::InsertionGuard guard(builder); // constants stand at the front, for all who read them
  builder.setInsertionPointToStart(&forward.getBody().front());
  Location here = loc;
  loc = builder.getUnknownLoc();
  mlir::Value result;
  std::string reason;
  std::optional<Mask> mask = readsMasks && masks.isMask(name) ? masks.classify(name, reason) : std::nullopt;
  std::string found = mask             ? mask->describe()
                      : reason.empty() ? ""
                                       : "by values, " + StringRef(reason).split(":\n").first.str();
  if (!found.empty() && !llvm::is_contained(report.masks, found))
    report.masks.push_back(found);
  if (mask) {
    result = maskValue(*mask, value->type, value->shape);
  } else {
    TensorRef tensor = evaluator.valueOf(name);
    if (!tensor) {
      loc = here;
      return failValue(evaluator.error());
    }
    auto type = RankedTensorType::get(shape, elementType(tensor->type));
    result = tensor->isSplat() ? splat(builder, loc, type, tensor->real(0)) : constantOf(builder, loc, *tensor, shape);
  }
  loc = here;
  return constants[name] = result;
}

mlir::Value Emitter::rowsOfAxis(mlir::Value x, SmallVectorImpl<int64_t> &inverse) {
  int64_t rank = typeOf(x).getRank(), axis = node->integer("axis", opset() >= 13 ? -1 : 1);
  axis = std::clamp<int64_t>(axis + (axis < 0 ? rank : 0), 0, std::max<int64_t>(rank - 1, 0));
  if (opset() >= 13)
    return rank ? axisToBack(builder, loc, x, axis, inverse) : reshapeTo(builder, loc, x, {1});
  inverse.clear();
  return reshapeTo(builder, loc, x, {countOf(shapeOf(x).take_front(axis)), countOf(shapeOf(x).drop_front(axis))});
}

mlir::Value Emitter::fromRowsOfAxis(mlir::Value rows, ArrayRef<int64_t> inverse) {
  return inverse.empty() ? reshapeTo(builder, loc, rows, outputShape()) : transposeTo(builder, loc, rows, inverse);
}

mlir::Value Emitter::table(ArrayRef<float> elements, ArrayRef<int64_t> shape) {
  auto type = RankedTensorType::get(shape, builder.getF32Type());
  auto attribute = DenseElementsAttr::get(type, elements);
  mlir::Value &known = tables[attribute];
  if (!known) {
    OpBuilder front = OpBuilder::atBlockBegin(&forward.getBody().front());
    known = graph::ConstantOp::create(front, front.getUnknownLoc(), type, attribute);
  }
  return known;
}

mlir::Value Emitter::onceOf(const TensorRef &tensor, llvm::function_ref<mlir::Value()> make) {
  auto [known, isNew] = made.try_emplace(tensor);
  if (isNew)
    known->second = make();
  return known->second;
}

mlir::Value Emitter::maskValue(const Mask &mask, ElementType type, ArrayRef<int64_t> fullShape) {
  SmallVector<int64_t> shape(fullShape.size(), 1);
  shape[shape.size() - 1] = shape[shape.size() - 2] = binding.sequence;
  auto valueType = RankedTensorType::get(shape, elementType(type));
  if (!mask.causal)
    return splat(builder, loc, RankedTensorType::get(fullShape, elementType(type)), mask.visible);
  auto indexType = RankedTensorType::get(shape, builder.getI32Type()),
       boolType = RankedTensorType::get(shape, builder.getI1Type());
  int64_t rank = int64_t(shape.size());
  mlir::Value row = graph::IotaOp::create(builder, loc, indexType, rank - 2),
              column = graph::IotaOp::create(builder, loc, indexType, rank - 1);
  mlir::Value visible = graph::CompareOp::create(builder, loc, boolType, column, row, graph::Comparison::LessOrEqual);
  if (mask.window) {
    mlir::Value first = graph::SubOp::create(builder, loc, row, splat(builder, loc, indexType, double(mask.window)));
    mlir::Value inWindow = graph::CompareOp::create(builder, loc, boolType, column, first, graph::Comparison::Greater);
    visible = graph::LogicOp::create(builder, loc, visible, inWindow, graph::Logic::And);
  }
  if (type == ElementType::Bool && mask.visible == 0) // it says what is hidden
    visible = graph::LogicOp::create(builder, loc, visible, splat(builder, loc, boolType, 1), graph::Logic::Xor);
  if (type == ElementType::Bool)
    return broadcastTo(builder, loc, visible, fullShape);
  mlir::Value seen = splat(builder, loc, valueType, mask.visible), unseen = splat(builder, loc, valueType, mask.hidden);
  return broadcastTo(builder, loc, graph::SelectOp::create(builder, loc, visible, seen, unseen), fullShape);
}

/// Live nodes that these outputs depend on, in order.
std::vector<unsigned> Emitter::neededNodes(SmallVector<StringRef> stack) {
  llvm::BitVector needed(model.nodes.size());
  while (!stack.empty()) {
    StringRef name = stack.pop_back_val();
    auto producer = model.producerOf.find(name);
    if (producer == model.producerOf.end() || !liveness.isLive(name) || needed[producer->second])
      continue;
    needed.set(producer->second);
    for (const std::string &input : model.nodes[producer->second].inputs)
      stack.push_back(input);
  }
  std::vector<unsigned> order;
  for (unsigned i : needed.set_bits())
    order.push_back(i);
  return order;
}

/// What a user can do about an op that is left out on purpose.
static StringRef adviceOn(StringRef op) {
  if (op.starts_with("ai.onnx.preview.training::"))
    return " (a training graph: export the forward model, ztc adds gradients and the optimizer itself)";
  if (op.starts_with("Random") || op == "Bernoulli" || op == "Multinomial")
    return " (works by chance: export the model in evaluation mode, model.eval())";
  if (op.contains_insensitive("quantize") || op.contains("QLinear") || op.ends_with("Integer"))
    return " (a quantised model: export the one that it was made from)";
  return "";
}

/// Of `NonZero`: sizes that data decide.
static std::string adviceOnRows(const Model &model) {
  return " (as many rows as data say" + (model.unspread.empty() ? "" : ": " + model.unspread) +
         ". Of a mixture of experts, place the shares among zeros and multiply, of which ztc computes the chosen rows "
         "alone: shares = torch.zeros_like(router_logits).scatter(-1, chosen, weights); y = y + shares[..., e, None] * "
         "expert(x). Of a model of transformers, call model.set_experts_implementation(\"batched_mm\") before the "
         "export)";
}

/// All ops that ztc cannot import, in one message.
LogicalResult Emitter::checkOps(ArrayRef<unsigned> needed) {
  llvm::BitVector isNeeded(model.nodes.size());
  for (unsigned i : needed)
    isNeeded.set(i);
  std::map<std::string, std::vector<std::string>> unsupported;
  for (auto [i, node] : llvm::enumerate(model.nodes)) {
    bool known = isNeeded[i] ? emissionOf(node.signature) != nullptr && kernelOf(node.signature) != nullptr
                             : kernelOf(node.signature) != nullptr;
    if (!known)
      unsupported[node.signature].push_back(node.label());
  }
  if (unsupported.empty())
    return success();
  std::string text;
  for (auto &[op, nodes] : unsupported) {
    text += "\n  " + op + " at";
    for (size_t i = 0; i < nodes.size() && i < 3; ++i)
      text += (i ? ", " : " ") + nodes[i];
    if (nodes.size() > 3)
      text += " and " + std::to_string(nodes.size() - 3) + " more";
    text += op == "NonZero" ? adviceOnRows(model) : adviceOn(op).str();
    report.unsupported.push_back(op + " at " + nodes[0] +
                                 (nodes.size() > 1 ? " and " + std::to_string(nodes.size() - 1) + " more" : ""));
  }
  return emitError(UnknownLoc::get(builder.getContext())) << model.path << ": ops that ztc cannot import:" << text;
}

std::optional<graph::Role> Emitter::roleOf(unsigned index) const {
  auto role = argumentAttributes[index].getAs<graph::RoleAttr>(graph::kRole);
  return role ? std::optional(role.getValue()) : std::nullopt;
}

void Emitter::widenParameter(unsigned index) {
  if (roleOf(index) != graph::Role::Parameter)
    return;
  NamedAttrList attributes(argumentAttributes[index]);
  attributes.set(graph::kWide, builder.getUnitAttr());
  argumentAttributes[index] = attributes.getDictionary(builder.getContext());
}

/// Marks what the node was emitted as, from this op on.
void Emitter::keepWide(Operation *first) {
  for (Operation *op = first; op; op = op->getNextNode()) {
    if (isa<graph::ConstantOp>(op))
      continue;
    op->setAttr(graph::kWide, builder.getUnitAttr());
    for (mlir::Value operand : op->getOperands())
      if (auto argument = dyn_cast<BlockArgument>(operand); argument && node->width == Node::Width::Parameters)
        widenParameter(argument.getArgNumber());
  }
}

LogicalResult Emitter::emitNodes(ArrayRef<StringRef> outputs) {
  std::vector<unsigned> needed = neededNodes(SmallVector<StringRef>(outputs));
  report.evaluatedNodes = model.nodes.size() - needed.size();
  if (failed(checkOps(needed)))
    return failure();
  for (unsigned index : needed) {
    node = &model.nodes[index];
    std::string scope = names.scopeOf(*node);
    loc = scope.empty() ? Location(builder.getUnknownLoc()) : NameLoc::get(builder.getStringAttr(scope));
    for (unsigned i = 0; i < node->outputs.size(); ++i)
      if (!node->outputs[i].empty() && !evaluator.shapeOf(node->outputs[i]))
        return emitError(UnknownLoc::get(builder.getContext())) << model.path << ": " << evaluator.error();
    Block &body = forward.getBody().front();
    Operation *last = body.empty() ? nullptr : &body.back();
    if (failed(emissionOf(node->signature)(*this)))
      return failure();
    Operation *first = last ? last->getNextNode() : &body.front();
    if (node->width != Node::Width::Policy)
      keepWide(first);
    for (Operation *op = node->isDetached ? first : nullptr; op; op = op->getNextNode())
      op->setAttr(graph::kDetached, builder.getUnitAttr());
    for (unsigned i = 0; i < node->outputs.size(); ++i) {
      auto emitted = values.find(node->outputs[i]);
      if (emitted != values.end() && shapeOf(emitted->second) != ArrayRef<int64_t>(output(i).shape))
        return fail("was emitted with another shape than the graph gives it");
    }
  }
  return success();
}

void Emitter::giveBack(ArrayRef<mlir::Value> results) {
  func::ReturnOp::create(builder, builder.getUnknownLoc(), results);
  ArrayRef<BlockArgument> arguments = forward.getBody().front().getArguments();
  forward.setFunctionType(builder.getFunctionType(ValueRange(arguments).getTypes(), ValueRange(results).getTypes()));
  forward.setAllArgAttrs(argumentAttributes);
}

LogicalResult Emitter::run() {
  if (failed(emitNodes({model.outputs[0].name})))
    return failure();
  mlir::Value logits = values.lookup(model.outputs[0].name);
  // Rows of a flattened batch are logits too.
  if (logits && typeOf(logits).getRank() == 2 && shapeOf(logits)[0] == binding.batch * binding.sequence)
    logits = reshapeTo(builder, builder.getUnknownLoc(), logits, {binding.batch, binding.sequence, shapeOf(logits)[1]});
  if (!logits || typeOf(logits).getRank() != 3 || !isa<FloatType>(typeOf(logits).getElementType()) ||
      shapeOf(logits)[0] != binding.batch || shapeOf(logits)[1] != binding.sequence)
    return emitError(UnknownLoc::get(builder.getContext())) << model.path << ": output '" << model.outputs[0].name
                                                            << "' is not logits of shape (batch, sequence, vocabulary)";
  giveBack(logits);
  forward.setResultAttr(0, graph::kResult, graph::ResultKindAttr::get(builder.getContext(), graph::ResultKind::Logits));
  return success();
}

LogicalResult Emitter::runNode(const Node &single) {
  node = &single;
  EmitFunction emit = emissionOf(single.signature);
  if (!emit)
    return fail("is not emitted");
  if (failed(emit(*this)))
    return failure();
  SmallVector<mlir::Value> results;
  for (unsigned i = 0; i < single.outputs.size(); ++i) {
    if (!hasOutput(i))
      continue;
    results.push_back(defined(i));
    if (!results.back())
      return fail("does not give output " + llvm::Twine(i));
  }
  giveBack(results);
  return success();
}

LogicalResult Emitter::runGraph() {
  SmallVector<StringRef> names;
  for (const GraphValue &output : model.outputs)
    names.push_back(output.name);
  if (failed(emitNodes(names)))
    return failure();
  SmallVector<mlir::Value> results;
  for (StringRef name : names) {
    mlir::Value value = values.lookup(name);
    const KnownValue *known = value ? nullptr : evaluator.shapeOf(name);
    if (known)
      value = constantValue(name, known->shape);
    if (!value)
      return emitError(UnknownLoc::get(builder.getContext()))
             << model.path << ": output '" << name << "' was not emitted: " << evaluator.error();
    results.push_back(value);
  }
  giveBack(results);
  return success();
}

} // namespace ztc::importer
