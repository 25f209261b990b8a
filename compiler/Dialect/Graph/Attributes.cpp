// The attributes by which a module says what its functions, arguments, results and ops are: which there are, what they
// stand on, and of which kind they are (RationaleGraph.md). None is a string that a pass has to interpret.
#include "compiler/Dialect/Graph/Graph.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace ztc::graph;

namespace {

/// What an attribute stands on.
enum class Place { Module, Function, Op, Argument, Result };

/// One attribute of the dialect: its name without the prefix, where it may stand, and what it holds.
struct Attributed {
  StringLiteral name;
  Place place;
  StringLiteral wanted; ///< in the message that says it holds something else
  bool (*holds)(Attribute);
};

template <typename... Kinds> bool is(Attribute attribute) {
  return isa<Kinds...>(attribute);
}
bool isCount(Attribute attribute) {
  auto number = dyn_cast<IntegerAttr>(attribute);
  return number && number.getType().isInteger(64) && number.getInt() >= 0;
}

constexpr StringLiteral kCount = "a 64-bit integer that is not negative", kString = "a string", kFlag = "a unit",
                        kStrings = "an array", kEntries = "a dictionary", kSymbol = "a symbol";

constexpr Attributed kAttributes[] = {
    {"model", Place::Module, kString, is<StringAttr>},
    {"batch", Place::Module, kCount, isCount},
    {"seq", Place::Module, kCount, isCount},
    {"vocabulary", Place::Module, kCount, isCount},
    {"position_limit", Place::Module, kCount, isCount},
    {"layers", Place::Module, kCount, isCount},
    {"loss_weights", Place::Module, kFlag, is<UnitAttr>},
    {"precision", Place::Module, kString, is<StringAttr>},
    {"optimizer", Place::Module, kString, is<StringAttr>},
    {"no_cache", Place::Module, kString, is<StringAttr>},
    {"update_in_backward", Place::Module, kFlag, is<UnitAttr>},
    {"delayed_scaling", Place::Module, kFlag, is<UnitAttr>},
    {"kept_fp32", Place::Module, kStrings, is<ArrayAttr>},
    {"adapters", Place::Module, kStrings, is<ArrayAttr>},
    {"adapter_config", Place::Module, kString, is<StringAttr>},
    {"entry", Place::Function, "an #graph.entry", is<EntryAttr>},
    {"recomputed", Place::Op, kFlag, is<UnitAttr>},
    {"recomputation", Place::Op, kFlag, is<UnitAttr>},
    {"drawn_again", Place::Op, kFlag, is<UnitAttr>},
    {"wide", Place::Op, kFlag, is<UnitAttr>},
    {"wide_factors", Place::Op, kFlag, is<UnitAttr>},
    {"rounded_narrow", Place::Op, kFlag, is<UnitAttr>},
    {"detached", Place::Op, kFlag, is<UnitAttr>},
    {"fp8", Place::Op, "a type", is<TypeAttr>},
    {"rate_ends", Place::Op, "an array of 64-bit integers", is<DenseI64ArrayAttr>},
    {"rate_factors", Place::Op, "an array of 64-bit floats", is<DenseF64ArrayAttr>},
    {"change_ends", Place::Op, "an array of 64-bit integers", is<DenseI64ArrayAttr>},
    {"change_factors", Place::Op, "an array of 64-bit floats", is<DenseF64ArrayAttr>},
    {"role", Place::Argument, "a #graph.role", is<RoleAttr>},
    {"name", Place::Argument, kString, is<StringAttr>},
    {"layer", Place::Argument, kCount, isCount},
    {"state", Place::Argument, kString, is<StringAttr>},
    {"source", Place::Argument, kEntries, is<DictionaryAttr>},
    {"tied", Place::Argument, kStrings, is<ArrayAttr>},
    {"frozen", Place::Argument, kFlag, is<UnitAttr>},
    {"no_decay", Place::Argument, kFlag, is<UnitAttr>},
    {"rate", Place::Argument, "a 64-bit float", is<FloatAttr>},
    {"change_factor", Place::Argument, "a 64-bit float", is<FloatAttr>},
    {"quantized", Place::Argument, "a #graph.weight_format", is<WeightFormatAttr>},
    {"quantized_transposed", Place::Argument, kFlag, is<UnitAttr>},
    {"block_states", Place::Argument, kFlag, is<UnitAttr>},
    {"wide", Place::Argument, kFlag, is<UnitAttr>},
    {"fp8_names", Place::Argument, kStrings, is<ArrayAttr>},
    {"bucket", Place::Argument, kSymbol, is<FlatSymbolRefAttr>},
    {"result", Place::Result, "a #graph.result", is<ResultKindAttr>},
    {"name", Place::Result, kString, is<StringAttr>},
    {"state", Place::Result, kString, is<StringAttr>},
    {"wide", Place::Result, kFlag, is<UnitAttr>},
    {"bucket", Place::Result, kSymbol, is<FlatSymbolRefAttr>},
};

LogicalResult verifyAttribute(Operation *op, NamedAttribute attribute, ArrayRef<Place> places) {
  StringRef name = attribute.getName().getValue();
  (void)name.consume_front("graph.");
  const Attributed *known = llvm::find_if(kAttributes, [&](const Attributed &entry) {
    return entry.name == name && llvm::is_contained(places, entry.place);
  });
  if (known == std::end(kAttributes))
    return op->emitError("the graph dialect has no attribute ") << attribute.getName() << " that stands here";
  if (!known->holds(attribute.getValue()))
    return op->emitError() << attribute.getName() << " holds " << attribute.getValue() << ", it should be "
                           << known->wanted;
  return success();
}

} // namespace

LogicalResult GraphDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  if (isa<ModuleOp>(op))
    return verifyAttribute(op, attribute, Place::Module);
  if (isa<func::FuncOp>(op))
    return verifyAttribute(op, attribute, Place::Function);
  return verifyAttribute(op, attribute, Place::Op);
}

LogicalResult GraphDialect::verifyRegionArgAttribute(Operation *op, unsigned, unsigned, NamedAttribute attribute) {
  return verifyAttribute(op, attribute, Place::Argument);
}

LogicalResult GraphDialect::verifyRegionResultAttribute(Operation *op, unsigned, unsigned, NamedAttribute attribute) {
  return verifyAttribute(op, attribute, Place::Result);
}
