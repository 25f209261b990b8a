#include "passes/Autodiff/UpdateFunction.h"
#include "compiler/Dialect/Graph/Optimizers.h"
#include "passes/Autodiff/Functions.h"
#include "passes/Autodiff/UpdateBody.h"
#include "runtime/Format/StepParameters.h"

using namespace mlir;

namespace ztc {
namespace {

/// What @update has of one kind for each parameter: an argument, and (but for gradients) a result.
struct UpdateKind {
  StringRef role;
  SmallVector<unsigned> parameters = {}; ///< argument numbers in @microstep
  SmallVector<Type> types = {};
  unsigned firstArgument = 0;
};

/// The type of the master beside a parameter of `element`; null where there is none.
Type masterType(Type element) {
  if (element.isBF16())
    return IntegerType::get(element.getContext(), 16);
  return element.isF16() ? Type(Float32Type::get(element.getContext())) : Type();
}

SmallVector<UpdateKind> kindsOf(func::FuncOp microstep, Type momentType) {
  const size_t states = graph::optimizerOf(microstep->getParentOfType<ModuleOp>()).states.size();
  SmallVector<UpdateKind> kinds{{"parameter"}, {"gradient"}, {"exp_avg"}, {"exp_avg_sq"}, {"master"}};
  for (unsigned index : graph::argumentsWithRole(microstep, "parameter")) {
    if (graph::isFrozen(microstep, index))
      continue;
    auto type = cast<RankedTensorType>(microstep.getArgumentTypes()[index]);
    Type element = type.getElementType(), moment = momentType ? momentType : graph::computeType(element);
    const Type stores[] = {element, element, states > 0 ? moment : Type(), states > 1 ? moment : Type(),
                           masterType(element)};
    for (auto [kind, stored] : llvm::zip_equal(kinds, stores))
      if (stored) {
        kind.parameters.push_back(index);
        kind.types.push_back(type.clone(stored));
      }
  }
  unsigned first = 1; // behind the step parameters
  for (UpdateKind &kind : kinds) {
    kind.firstArgument = first;
    first += kind.parameters.size();
  }
  return kinds;
}

func::FuncOp createFunction(OpBuilder &builder, func::FuncOp microstep, ArrayRef<UpdateKind> kinds) {
  auto dictionary = [&](StringRef role, StringRef name) {
    SmallVector<NamedAttribute> entries{builder.getNamedAttr(graph::kRole, builder.getStringAttr(role))};
    if (!name.empty())
      entries.push_back(builder.getNamedAttr(graph::kName, builder.getStringAttr(name)));
    return builder.getDictionaryAttr(entries);
  };
  SmallVector<Type> types{RankedTensorType::get({kStepParameterCount}, builder.getF32Type())};
  SmallVector<DictionaryAttr> attributes{dictionary("step", "")};
  SmallVector<Location> locations{microstep.getLoc()};
  for (const UpdateKind &kind : kinds)
    for (auto [index, type] : llvm::zip_equal(kind.parameters, kind.types)) {
      types.push_back(type);
      attributes.push_back(kind.role == "parameter"
                               ? microstep.getArgAttrDict(index)
                               : dictionary(kind.role, graph::argString(microstep, index, graph::kName)));
      locations.push_back(microstep.getArgument(index).getLoc());
    }
  auto update = func::FuncOp::create(builder, microstep.getLoc(), "update", builder.getFunctionType(types, {}));
  update.setAllArgAttrs(attributes);
  Block &body = update.getBody().emplaceBlock();
  body.addArguments(types, locations);
  builder.setInsertionPointToEnd(&body);
  func::ReturnOp::create(builder, update.getLoc());
  return update;
}

} // namespace

func::FuncOp buildUpdateFunction(OpBuilder &builder, func::FuncOp microstep, Type momentType) {
  OpBuilder::InsertionGuard guard(builder);
  SmallVector<UpdateKind> kinds = kindsOf(microstep, momentType);
  func::FuncOp update = createFunction(builder, microstep, kinds);
  SmallVector<UpdateEntry> entries;
  unsigned masters = 0;
  for (auto [i, index] : llvm::enumerate(kinds[0].parameters)) {
    auto argument = [&, i = i](unsigned kind) {
      return kinds[kind].parameters.empty() ? Value() : Value(update.getArgument(kinds[kind].firstArgument + i));
    };
    bool decays = !microstep.getArgAttr(index, graph::kNoDecay);
    bool hasMaster = masters < kinds[4].parameters.size() && kinds[4].parameters[masters] == index;
    Value master = hasMaster ? update.getArgument(kinds[4].firstArgument + masters++) : Value();
    int64_t elements = cast<RankedTensorType>(microstep.getArgumentTypes()[index]).getNumElements();
    entries.push_back({argument(0), argument(1), argument(2), argument(3), master, decays ? elements : 0});
  }
  builder.setInsertionPoint(update.getBody().front().getTerminator());
  UpdateValues values = buildUpdateBody(builder, update.getLoc(), update.getArgument(0), entries);

  SmallVector<NamedResult> results;
  auto addKind = [&](ArrayRef<Value> produced, const UpdateKind &kind) {
    for (auto [value, index] : llvm::zip_equal(produced, kind.parameters))
      results.push_back({value, kind.role, graph::argString(microstep, index, graph::kName)});
  };
  addKind(values.parameters, kinds[0]);
  addKind(values.expAvgs, kinds[2]);
  addKind(values.expAvgSqs, kinds[3]);
  addKind(values.masters, kinds[4]);
  results.push_back({values.gradientNorm, "gradient_norm"});
  results.push_back({values.finite, "finite"});
  setResults(update, results);
  return update;
}

} // namespace ztc
