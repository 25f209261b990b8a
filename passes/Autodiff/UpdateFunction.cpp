#include "passes/Autodiff/UpdateFunction.h"
#include "compiler/Dialect/Graph/Optimizers.h"
#include "passes/Autodiff/Functions.h"
#include "passes/Autodiff/UpdateBody.h"
#include "runtime/Format/StepParameters.h"

using namespace mlir;

namespace ztc {
namespace {

/// What @update has of one kind for each parameter, or of those that have it: an argument, and (but for gradients) a
/// result.
struct UpdateKind {
  graph::Role role;
  graph::ResultKind result;              ///< of what is returned; gradients are not
  StringRef state = {};                  ///< of the role `state`: which one
  SmallVector<unsigned> parameters = {}; ///< argument numbers in @microstep, ascending
  SmallVector<Type> types = {};
  unsigned firstArgument = 0;

  /// The argument of the parameter with this number in @microstep; nothing where it has none of this kind.
  std::optional<unsigned> argumentOf(unsigned parameter) const {
    const auto *found = llvm::lower_bound(parameters, parameter);
    return found == parameters.end() || *found != parameter
               ? std::nullopt
               : std::optional(firstArgument + unsigned(found - parameters.begin()));
  }
  void add(unsigned parameter, Type type) {
    parameters.push_back(parameter);
    types.push_back(type);
  }
};

/// Parameters, gradients, each of the optimizer's states, and masters, in the order of @update's arguments.
struct UpdateKinds {
  UpdateKind parameters{graph::Role::Parameter, graph::ResultKind::Parameter},
      gradients{graph::Role::Gradient, graph::ResultKind::Gradient},
      masters{graph::Role::Master, graph::ResultKind::Master};
  SmallVector<UpdateKind> states;

  UpdateKind &state(StringRef name) {
    return *llvm::find_if(states, [&](const UpdateKind &kind) { return kind.state == name; });
  }

  SmallVector<UpdateKind *> all() {
    SmallVector<UpdateKind *> kinds{&parameters, &gradients};
    for (UpdateKind &state : states)
      kinds.push_back(&state);
    kinds.push_back(&masters);
    return kinds;
  }
};

/// The type of the master beside a parameter of `element`; null where there is none.
Type masterType(Type element) {
  if (element.isBF16())
    return IntegerType::get(element.getContext(), 16);
  return element.isF16() ? Type(Float32Type::get(element.getContext())) : Type();
}

UpdateKinds kindsOf(func::FuncOp microstep, const UpdateStorage &storage) {
  UpdateKinds kinds;
  auto module = microstep->getParentOfType<ModuleOp>();
  // The kinds' names are those of the registered rules, which last.
  for (bool isMatrix : {false, true})
    for (const graph::OptimizerState &state : graph::optimizerOf(module, isMatrix).states)
      if (llvm::none_of(kinds.states, [&](const UpdateKind &kind) { return kind.state == state.name; }))
        kinds.states.push_back({graph::Role::State, graph::ResultKind::State, state.name});
  for (unsigned index : graph::argumentsWithRole(microstep, graph::Role::Parameter)) {
    if (graph::isFrozen(microstep, index))
      continue;
    auto type = cast<RankedTensorType>(microstep.getArgumentTypes()[index]);
    const Type element = type.getElementType();
    kinds.parameters.add(index, type);
    kinds.gradients.add(index, type);
    const bool inBlocks = storage.inBlocks && microstep.getArgAttr(index, graph::kBlockStates);
    const bool isMatrix = bool(microstep.getArgAttr(index, graph::kChangeFactor));
    for (const graph::OptimizerState &state : graph::optimizerOf(module, isMatrix).states)
      kinds.state(state.name)
          .add(index, inBlocks ? RankedTensorType::get({type.getNumElements()},
                                                       graph::Block8Type::get(type.getContext(), state.isSigned))
                               : type.clone(storage.states ? storage.states : graph::computeType(element)));
    if (Type master = masterType(element); master && (storage.hasMasters || element.isF16()))
      kinds.masters.add(index, type.clone(master));
  }
  unsigned first = 1; // after the step parameters
  for (UpdateKind *kind : kinds.all()) {
    kind->firstArgument = first;
    first += kind->parameters.size();
  }
  return kinds;
}

func::FuncOp createFunction(OpBuilder &builder, func::FuncOp microstep, ArrayRef<UpdateKind *> kinds) {
  auto dictionary = [&](graph::Role role, StringRef name, StringRef state) {
    SmallVector<NamedAttribute> entries{graph::namedRole(builder.getContext(), role)};
    for (auto [key, text] : {std::pair(StringRef(graph::kName), name), std::pair(StringRef(graph::kState), state)})
      if (!text.empty())
        entries.push_back(builder.getNamedAttr(key, builder.getStringAttr(text)));
    return builder.getDictionaryAttr(entries);
  };
  SmallVector<Type> types{RankedTensorType::get({kStepParameterCount}, builder.getF32Type())};
  SmallVector<DictionaryAttr> attributes{dictionary(graph::Role::Step, "", "")};
  SmallVector<Location> locations{microstep.getLoc()};
  for (const UpdateKind *kind : kinds)
    for (auto [index, type] : llvm::zip_equal(kind->parameters, kind->types)) {
      types.push_back(type);
      attributes.push_back(kind->role == graph::Role::Parameter
                               ? microstep.getArgAttrDict(index)
                               : dictionary(kind->role, graph::argString(microstep, index, graph::kName), kind->state));
      locations.push_back(microstep.getArgument(index).getLoc());
    }
  auto update = func::FuncOp::create(builder, microstep.getLoc(), "update", builder.getFunctionType(types, {}));
  graph::setEntry(update, graph::Entry::Update);
  update.setAllArgAttrs(attributes);
  Block &body = update.getBody().emplaceBlock();
  body.addArguments(types, locations);
  builder.setInsertionPointToEnd(&body);
  func::ReturnOp::create(builder, update.getLoc());
  return update;
}

} // namespace

func::FuncOp buildUpdateFunction(OpBuilder &builder, func::FuncOp microstep, const UpdateStorage &storage) {
  OpBuilder::InsertionGuard guard(builder);
  UpdateKinds kinds = kindsOf(microstep, storage);
  func::FuncOp update = createFunction(builder, microstep, kinds.all());
  std::vector<UpdateEntry> entries;
  unsigned masters = 0;
  for (auto [i, index] : llvm::enumerate(kinds.parameters.parameters)) {
    auto argument = [&, i = i](const UpdateKind &kind) { return update.getArgument(kind.firstArgument + i); };
    UpdateEntry &entry = entries.emplace_back();
    entry.parameter = argument(kinds.parameters);
    entry.gradient = argument(kinds.gradients);
    for (const UpdateKind &state : kinds.states)
      if (std::optional<unsigned> place = state.argumentOf(index))
        entry.states.push_back(update.getArgument(*place));
    if (masters < kinds.masters.parameters.size() && kinds.masters.parameters[masters] == index)
      entry.master = update.getArgument(kinds.masters.firstArgument + masters++);
    entry.tensors.push_back({graph::argString(microstep, index, graph::kName).str()});
    if (auto factor = microstep.getArgAttrOfType<FloatAttr>(index, graph::kChangeFactor)) {
      const auto shape = cast<RankedTensorType>(microstep.getArgumentTypes()[index]).getShape();
      entry.matrices.push_back({entry.tensors.front().name, 0, SmallVector<int64_t>(shape), factor.getValueAsDouble()});
    }
    if (!microstep.getArgAttr(index, graph::kNoDecay))
      entry.decayed = cast<RankedTensorType>(microstep.getArgumentTypes()[index]).getNumElements();
    if (auto rate = microstep.getArgAttrOfType<FloatAttr>(index, graph::kRate)) {
      entry.rates.ends.push_back(cast<RankedTensorType>(microstep.getArgumentTypes()[index]).getNumElements());
      entry.rates.factors.push_back(rate.getValueAsDouble());
    }
  }
  builder.setInsertionPoint(update.getBody().front().getTerminator());
  UpdateValues values = buildUpdateBody(builder, update.getLoc(), update.getArgument(0), entries);

  SmallVector<NamedResult> results;
  auto addKind = [&](const UpdateKind &kind, function_ref<Value(const UpdatedEntry &)> valueOf) {
    for (auto [entry, index] : llvm::zip_equal(values.entries, kinds.parameters.parameters))
      if (Value value = valueOf(entry))
        results.push_back({value, kind.result, graph::argString(microstep, index, graph::kName), kind.state});
  };
  addKind(kinds.parameters, [](const UpdatedEntry &entry) { return entry.parameter; });
  // An entry's states are in the order of the kinds that it has.
  SmallVector<unsigned> next(values.entries.size());
  for (const UpdateKind &state : kinds.states)
    for (auto [entry, index, number] : llvm::zip_equal(values.entries, kinds.parameters.parameters, next))
      if (state.argumentOf(index))
        results.push_back(
            {entry.states[number++], state.result, graph::argString(microstep, index, graph::kName), state.state});
  addKind(kinds.masters, [](const UpdatedEntry &entry) { return entry.master; });
  results.push_back({values.gradientNorm, graph::ResultKind::GradientNorm});
  results.push_back({values.finite, graph::ResultKind::Finite});
  setResults(update, results);
  return update;
}

} // namespace ztc
