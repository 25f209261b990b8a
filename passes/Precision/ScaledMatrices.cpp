#include "passes/Precision/ScaledMatrices.h"
#include "compiler/Dialect/Dist/Dist.h"
#include "compiler/Dialect/Graph/Roles.h"
#include "mlir/IR/SymbolTable.h"

using namespace mlir;

namespace ztc {

/// All that a view of a bucket spans; of a slice of it too.
SmallVector<std::string> ScaledMatrices::parametersOf(Value weight) {
  int64_t begin = 0, end = cast<RankedTensorType>(weight.getType()).getNumElements();
  while (Operation *source = weight.getDefiningOp()) {
    weight = source->getOperand(0);
    auto view = dyn_cast<dist::ViewOp>(source);
    begin = view ? int64_t(view.getOffset()) : 0;
    end = begin + cast<RankedTensorType>(source->getResult(0).getType()).getNumElements();
  }
  const unsigned index = cast<BlockArgument>(weight).getArgNumber();
  auto symbol = function.getArgAttrOfType<FlatSymbolRefAttr>(index, graph::kBucket);
  auto bucket = symbol ? SymbolTable::lookupNearestSymbolFrom<dist::BucketOp>(function, symbol) : dist::BucketOp();
  if (!bucket)
    return {graph::argString(function, index, graph::kName).str()};
  SmallVector<std::string> names;
  for (Attribute entry : bucket.getParameters()) {
    const dist::BucketParameter parameter = dist::readBucketParameter(entry);
    if (parameter.offset < end && begin < parameter.offset + parameter.elements())
      names.push_back(parameter.name.str());
  }
  return names;
}

void ScaledMatrices::add(Value matrix, bool isCotangent, ArrayRef<std::string> parameters) {
  Entry &entry = entries[matrix];
  for (const std::string &parameter : parameters) {
    if (llvm::is_contained(entry.parameters, parameter))
      continue;
    entry.parameters.push_back(parameter);
    std::string name = parameter + (isCotangent ? ".cotangent" : ".input");
    const unsigned use = ++uses[name];
    entry.names.push_back(use == 1 ? name : name + "." + std::to_string(use));
  }
}

void ScaledMatrices::addReader(Value matrix, bool isCotangent, Value weight) {
  add(matrix, isCotangent, parametersOf(weight));
}

void ScaledMatrices::addGradient(Value a, bool aIsCotangent, Value b, bool bIsCotangent) {
  const SmallVector<std::string> ofA = entries[a].parameters, ofB = entries[b].parameters;
  if (ofA.empty())
    add(a, aIsCotangent, ofB);
  if (ofB.empty())
    add(b, bIsCotangent, ofA);
}

ArrayAttr ScaledMatrices::namesOf(Value matrix) {
  const auto found = entries.find(matrix);
  SmallVector<Attribute> names;
  if (found != entries.end())
    for (const std::string &name : found->second.names)
      names.push_back(StringAttr::get(function.getContext(), name));
  return ArrayAttr::get(function.getContext(), names);
}

} // namespace ztc
