#include "compiler/Dialect/Graph/Experts.h"
#include "compiler/Dialect/Graph/Expr.h"
#include "compiler/Dialect/Graph/Fp8.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Dialect/Graph/MatmulAdd.h"
#include "compiler/Dialect/Graph/Recurrence.h"
#include "compiler/Dialect/Graph/Scan.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace ztc::graph;

// Parts of the textual form that the declarative format cannot say.
/// `-> type` where it is not that of the other value.
static ParseResult parseWiderType(OpAsmParser &parser, Type type, Type &wider) {
  wider = type;
  return succeeded(parser.parseOptionalArrow()) ? parser.parseType(wider) : ParseResult(success());
}
static void printWiderType(OpAsmPrinter &printer, Operation *, Type type, Type wider) {
  if (wider != type)
    printer << "-> " << wider;
}

#include "compiler/Dialect/Graph/GraphDialect.cpp.inc"
#include "compiler/Dialect/Graph/GraphEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "compiler/Dialect/Graph/GraphAttributes.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "compiler/Dialect/Graph/GraphTypes.cpp.inc"

#define GET_OP_CLASSES
#include "compiler/Dialect/Graph/GraphOps.cpp.inc"

void GraphDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "compiler/Dialect/Graph/GraphAttributes.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "compiler/Dialect/Graph/GraphTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "compiler/Dialect/Graph/GraphOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "compiler/Dialect/Graph/GraphFp8.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "compiler/Dialect/Graph/GraphMatmulAdd.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "compiler/Dialect/Graph/GraphRecurrence.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "compiler/Dialect/Graph/GraphExperts.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "compiler/Dialect/Graph/GraphScan.cpp.inc"
      >();
}

Type Block8Type::parse(AsmParser &parser) {
  StringRef word;
  const SMLoc at = parser.getCurrentLocation();
  if (parser.parseLess() || parser.parseKeyword(&word) || parser.parseGreater())
    return {};
  if (word != "signed" && word != "unsigned")
    return parser.emitError(at, "expected <signed> or <unsigned>"), Type();
  return get(parser.getContext(), word == "signed");
}

void Block8Type::print(AsmPrinter &printer) const {
  printer << (getIsSigned() ? "<signed>" : "<unsigned>");
}

Operation *GraphDialect::materializeConstant(OpBuilder &builder, Attribute value, Type type, Location loc) {
  auto elements = dyn_cast<ElementsAttr>(value);
  if (!elements || elements.getType() != type)
    return nullptr;
  return ConstantOp::create(builder, loc, elements);
}

int64_t ztc::graph::elementCount(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.hasStaticShape() ? type.getNumElements() : 0;
}

bool ztc::graph::isAsWide(Type type, Type other) {
  Type element = getElementTypeOrSelf(type), narrow = getElementTypeOrSelf(other);
  return element == narrow || (isa<FloatType>(element) && isa<FloatType>(narrow) &&
                               element.getIntOrFloatBitWidth() > narrow.getIntOrFloatBitWidth());
}

bool ztc::graph::isNarrow(Type type) {
  Type element = getElementTypeOrSelf(type);
  return computeType(element) != element;
}

Type ztc::graph::computeType(Type type) {
  auto real = dyn_cast<FloatType>(type);
  return real && real.getWidth() < 32 ? Float32Type::get(type.getContext()) : type;
}

Type ztc::graph::reducedType(Type type, ArrayRef<int64_t> axes) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor)
    return type;
  SmallVector<int64_t> shape(tensor.getShape());
  for (int64_t axis : axes)
    if (axis >= 0 && axis < tensor.getRank())
      shape[axis] = 1;
  return RankedTensorType::get(shape, tensor.getElementType());
}
