#include "passes/Verify/Checks.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace ztc {

LogicalResult checkFunctions(ModuleOp module, StringRef constraint, ArrayRef<graph::Entry> entries) {
  for (Operation &op : *module.getBody()) {
    auto function = dyn_cast<func::FuncOp>(op);
    const std::optional<graph::Entry> entry = function ? graph::entryOf(function) : std::nullopt;
    if (!entry || function.isExternal() || !llvm::is_contained(entries, *entry))
      return op.emitOpError() << constraint << ": the module holds more than "
                              << llvm::join(llvm::map_range(entries, graph::stringifyEntry), ", ");
  }
  for (graph::Entry entry : entries)
    if (!graph::findEntry(module, entry))
      return module.emitError() << constraint << ": the module has no @" << graph::stringifyEntry(entry);
  return success();
}

LogicalResult checkOnlyGraphOps(func::FuncOp function, StringRef constraint) {
  WalkResult result = function.getBody().walk([&](Operation *op) {
    if (isa<func::ReturnOp>(op) || isa_and_nonnull<graph::GraphDialect>(op->getDialect()))
      return WalkResult::advance();
    // A plugin's op: what it computes, its derivative and its kernel follow from the graph ops that it is written out
    // in.
    if (isa<DecomposableOpInterface>(op) && isPure(op))
      return WalkResult::advance();
    op->emitOpError() << constraint << ": is not a graph op";
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

LogicalResult checkRoles(func::FuncOp function, StringRef constraint, ArrayRef<StringRef> roles) {
  unsigned index = 0;
  for (StringRef expected : roles) {
    bool repeats = expected.consume_back("...");
    unsigned first = index;
    llvm::StringSet<> names;
    // States follow one another by their names.
    auto isExpected = [&] {
      return !graph::isBucket(graph::roleOf(function, index)) && graph::argumentKind(function, index) == expected;
    };
    while (index < function.getNumArguments() && isExpected() && (repeats || index == first)) {
      StringRef name = graph::argString(function, index, graph::kName);
      if (repeats && name.empty())
        return function.emitOpError() << constraint << ": argument " << index << " has the role " << expected
                                      << " and no name";
      if (repeats && !names.insert(name).second)
        return function.emitOpError() << constraint << ": two arguments have the role " << expected << " and the name '"
                                      << name << "'";
      ++index;
    }
    if (!repeats && index == first)
      return function.emitOpError() << constraint << ": argument " << index << " should have the role " << expected;
  }
  if (index != function.getNumArguments())
    return function.emitOpError() << constraint << ": argument " << index << " has the role '"
                                  << graph::argumentKind(function, index) << "' where none of this kind is expected";
  return success();
}

LogicalResult checkResults(func::FuncOp function, StringRef constraint, ArrayRef<ExpectedResult> expected) {
  if (function.getNumResults() != expected.size())
    return function.emitOpError() << constraint << ": returns " << function.getNumResults() << " values, expected "
                                  << expected.size();
  for (auto [index, result] : llvm::enumerate(expected)) {
    auto name = function.getResultAttrOfType<StringAttr>(index, graph::kName);
    if (graph::resultKind(function, index) != result.result)
      return function.emitOpError() << constraint << ": result " << index << " should be marked " << result.result;
    if ((name ? name.getValue() : StringRef()) != result.name)
      return function.emitOpError() << constraint << ": result " << index << " should have the name '" << result.name
                                    << "'";
    if (function.getResultTypes()[index] != result.type)
      return function.emitOpError() << constraint << ": result " << index << " has type "
                                    << function.getResultTypes()[index] << ", expected " << result.type;
  }
  return success();
}

} // namespace ztc
