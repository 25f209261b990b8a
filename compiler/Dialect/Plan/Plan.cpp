#include "compiler/Dialect/Plan/Plan.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace ztc::plan_ir;

/// `, own_shard` at the end of a place or an operand.
static ParseResult parseOwnShard(AsmParser &parser, bool &ownShard) {
  ownShard = succeeded(parser.parseOptionalComma());
  return ownShard ? parser.parseKeyword("own_shard") : ParseResult(success());
}
static void printOwnShard(AsmPrinter &printer, bool ownShard) {
  if (ownShard)
    printer << ", own_shard";
}

#include "compiler/Dialect/Plan/PlanDialect.cpp.inc"
#include "compiler/Dialect/Plan/PlanEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "compiler/Dialect/Plan/PlanAttributes.cpp.inc"
#include "compiler/Dialect/Plan/PlanInterfaces.cpp.inc"
#define GET_OP_CLASSES
#include "compiler/Dialect/Plan/PlanOps.cpp.inc"

void PlanDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "compiler/Dialect/Plan/PlanAttributes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "compiler/Dialect/Plan/PlanOps.cpp.inc"
      >();
}

LogicalResult SlotOp::verify() {
  if (int64_t(getElements()) < 0 || int64_t(getElementBytes()) <= 0)
    return emitOpError("(C1) a slot of ")
           << int64_t(getElements()) << " elements of " << int64_t(getElementBytes()) << " bytes";
  if (getAccumulator() && getPersistent())
    return emitOpError("(C2) an accumulator is persistent");
  return success();
}
