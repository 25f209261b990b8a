#include "compiler/Interfaces/Interfaces.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;

#include "compiler/Interfaces/Cost.cpp.inc"
#include "compiler/Interfaces/Decomposable.cpp.inc"
#include "compiler/Interfaces/Differentiable.cpp.inc"
#include "compiler/Interfaces/LibraryCall.cpp.inc"
#include "compiler/Interfaces/Optimizer.cpp.inc"
#include "compiler/Interfaces/Precision.cpp.inc"
#include "compiler/Interfaces/StorageAlias.cpp.inc"

int64_t ztc::elementBytes(Type type) {
  // What is neither a number nor an integer is a code of 8 bits; its share of a block's scale is not counted.
  const Type element = getElementTypeOrSelf(type);
  return element.isIntOrFloat() ? (element.getIntOrFloatBitWidth() + 7) / 8 : 1;
}

int64_t ztc::tensorBytes(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !tensor.hasStaticShape())
    return 0;
  return tensor.getNumElements() * elementBytes(tensor);
}

int64_t ztc::operandAndResultBytes(Operation *op) {
  llvm::SmallPtrSet<Value, 8> seen;
  int64_t bytes = 0;
  for (Value operand : op->getOperands())
    if (seen.insert(operand).second)
      bytes += tensorBytes(operand.getType());
  for (Value result : op->getResults())
    bytes += tensorBytes(result.getType());
  return bytes;
}
