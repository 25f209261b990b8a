#include "compiler/Dialect/Dist/Fp8.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/OpImplementation.h"
#include "runtime/Format/Shards.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace ztc::dist;

#include "compiler/Dialect/Dist/DistDialect.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "compiler/Dialect/Dist/DistAttributes.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "compiler/Dialect/Dist/DistTypes.cpp.inc"
#define GET_OP_CLASSES
#include "compiler/Dialect/Dist/DistOps.cpp.inc"

void DistDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "compiler/Dialect/Dist/DistAttributes.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "compiler/Dialect/Dist/DistTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "compiler/Dialect/Dist/DistOps.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "compiler/Dialect/Dist/DistFp8.cpp.inc"
      >();
}

static int64_t product(ArrayRef<int64_t> shape) {
  int64_t elements = 1;
  for (int64_t size : shape)
    elements *= size;
  return elements;
}

int64_t BucketParameter::elements() const {
  return product(shape);
}

BucketParameter ztc::dist::readBucketParameter(Attribute entry) {
  auto dictionary = cast<DictionaryAttr>(entry);
  BucketParameter parameter;
  parameter.name = dictionary.getAs<StringAttr>("name");
  parameter.shape = dictionary.getAs<DenseI64ArrayAttr>("shape").asArrayRef();
  parameter.offset = dictionary.getAs<IntegerAttr>("offset").getInt();
  parameter.tied = dictionary.getAs<ArrayAttr>("tied");
  parameter.source = dictionary.getAs<DictionaryAttr>("source");
  return parameter;
}

DictionaryAttr ztc::dist::makeBucketParameter(StringAttr name, ArrayRef<int64_t> shape, int64_t offset, ArrayAttr tied,
                                              DictionaryAttr source) {
  Builder builder(name.getContext());
  SmallVector<NamedAttribute> fields{builder.getNamedAttr("name", name),
                                     builder.getNamedAttr("shape", builder.getDenseI64ArrayAttr(shape)),
                                     builder.getNamedAttr("offset", builder.getI64IntegerAttr(offset))};
  if (tied)
    fields.push_back(builder.getNamedAttr("tied", tied));
  if (source)
    fields.push_back(builder.getNamedAttr("source", source));
  return builder.getDictionaryAttr(fields);
}

LogicalResult BucketOp::verify() {
  int64_t end = 0;
  const int64_t quantum = getQuantum() ? int64_t(*getQuantum()) : 0;
  if (getQuantum() && (quantum <= 0 || quantum % int64_t(kShardQuantum) != 0))
    return emitOpError("(C6) the quantum is not a positive multiple of ") << kShardQuantum << ": " << quantum;
  for (Attribute entry : getParameters()) {
    auto dictionary = dyn_cast<DictionaryAttr>(entry);
    if (!dictionary || !dictionary.getAs<StringAttr>("name") || !dictionary.getAs<DenseI64ArrayAttr>("shape") ||
        !dictionary.getAs<IntegerAttr>("offset"))
      return emitOpError("(C1) a parameter lacks name, shape or offset: ") << entry;
    BucketParameter parameter = readBucketParameter(entry);
    if (parameter.offset % kParameterAlignment)
      return emitOpError("(C2) offset of ")
             << parameter.name << " is not a multiple of " << kParameterAlignment << ": " << parameter.offset;
    if (quantum && parameter.offset % quantum)
      return emitOpError("(C6) offset of ")
             << parameter.name << " is not a multiple of " << quantum << ": " << parameter.offset;
    if (parameter.offset < end)
      return emitOpError("(C3) ") << parameter.name << " starts at " << parameter.offset
                                  << ", the one before it ends at " << end;
    end = parameter.offset + parameter.elements();
    if (parameter.offset < int64_t(getDecayed()) && end > int64_t(getDecayed()))
      return emitOpError("(C5) ") << parameter.name << " crosses the end of the decayed part at " << getDecayed();
  }
  if (end != int64_t(getElements()))
    return emitOpError("(C4) the last parameter ends at ") << end << ", the bucket at " << getElements();
  if (int64_t(getDecayed()) < 0 || getDecayed() > getElements())
    return emitOpError("(C5) the decayed part is longer than the bucket: ") << getDecayed() << ", " << getElements();
  return success();
}

LogicalResult MeshOp::verify() {
  llvm::StringSet<> names;
  for (auto axis : getAxes().getAsRange<StringAttr>())
    if (axis.empty() || !names.insert(axis.getValue()).second)
      return emitOpError("(C1) an axis has no name or that of another one: ") << axis;
  if (names.empty())
    return emitOpError("(C1) a mesh without axes");
  return success();
}

LogicalResult ViewOp::verify() {
  auto bucket = cast<RankedTensorType>(getBucket().getType());
  auto view = cast<RankedTensorType>(getY().getType());
  int64_t end = int64_t(getOffset()) + view.getNumElements();
  if (int64_t(getOffset()) < 0 || (bucket.hasStaticShape() && end > bucket.getNumElements()))
    return emitOpError("(C1) the view covers elements ")
           << int64_t(getOffset()) << " to " << end << " of " << bucket.getNumElements();
  if (bucket.getElementType() != view.getElementType())
    return emitOpError("(C2) element types differ: ") << bucket.getElementType() << ", " << view.getElementType();
  if (isShard(bucket))
    return emitOpError("(C3) a view of a shard: ") << bucket;
  return success();
}

LogicalResult PackOp::verify() {
  auto bucket = cast<RankedTensorType>(getBucket().getType());
  if (getOffsets().size() != getParts().size())
    return emitOpError("(C1) ") << getParts().size() << " parts have " << getOffsets().size() << " offsets";
  int64_t end = 0;
  for (auto [part, offset] : llvm::zip_equal(getParts(), getOffsets())) {
    auto type = cast<RankedTensorType>(part.getType());
    if (offset < end)
      return emitOpError("(C2) a part starts at ") << offset << ", the one before it ends at " << end;
    end = offset + type.getNumElements();
    if (type.getElementType() != bucket.getElementType())
      return emitOpError("(C4) element types differ: ") << type.getElementType() << ", " << bucket.getElementType();
  }
  if (bucket.hasStaticShape() && end > bucket.getNumElements())
    return emitOpError("(C3) the last part ends at ") << end << ", the bucket at " << bucket.getNumElements();
  if (isShard(bucket))
    return emitOpError("(C5) parts make a shard: ") << bucket;
  return success();
}
