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

/// The same and `, piece N of M` after it: the operand's elements from N * M on.
static ParseResult parseOwnShardAndPiece(AsmParser &parser, bool &ownShard, uint64_t &piece, uint64_t &pieceElements) {
  ownShard = false;
  piece = pieceElements = 0;
  while (succeeded(parser.parseOptionalComma())) {
    if (!ownShard && succeeded(parser.parseOptionalKeyword("own_shard"))) {
      ownShard = true;
      continue;
    }
    return failure(failed(parser.parseKeyword("piece")) || failed(parser.parseInteger(piece)) ||
                   failed(parser.parseKeyword("of")) || failed(parser.parseInteger(pieceElements)));
  }
  return success();
}
static void printOwnShardAndPiece(AsmPrinter &printer, bool ownShard, uint64_t piece, uint64_t pieceElements) {
  printOwnShard(printer, ownShard);
  if (pieceElements)
    printer << ", piece " << piece << " of " << pieceElements;
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
  if (getSpace() != Space::Device && !getPersistent())
    return emitOpError("(C3) what lies in a lower space is not persistent");
  return success();
}
