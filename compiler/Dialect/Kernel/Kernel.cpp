#include "compiler/Dialect/Kernel/Kernel.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/Interfaces/FunctionImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

#include "compiler/Dialect/Kernel/KernelDialect.cpp.inc"
#include "compiler/Dialect/Kernel/KernelEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "compiler/Dialect/Kernel/KernelAttributes.cpp.inc"
#define GET_OP_CLASSES
#include "compiler/Dialect/Kernel/KernelOps.cpp.inc"

using namespace mlir;

namespace ztc::kernel {

/// Threads that a block may have on any GPU (CUDA C++ Programming Guide, "Compute Capabilities").
static constexpr int64_t kMaxThreads = 1024;

void KernelDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "compiler/Dialect/Kernel/KernelAttributes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "compiler/Dialect/Kernel/KernelOps.cpp.inc"
      >();
}

LogicalResult KernelDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  // (C1)
  if (attribute.getName() == kLaunch && (!isa<FunctionOpInterface>(op) || !isa<LaunchAttr>(attribute.getValue())))
    return op->emitOpError("'") << kLaunch << "' belongs on a function and is a #kernel.launch, not "
                                << attribute.getValue();
  return success();
}

LogicalResult LaunchAttr::verify(function_ref<InFlightDiagnostic()> error, int64_t threads, int64_t units,
                                 int64_t shared, int64_t blocks) {
  // (C1)
  if (threads < 1 || threads > kMaxThreads)
    return error() << "a block of " << threads << " threads: between 1 and " << kMaxThreads << " are possible";
  // (C2)
  if (units < 1)
    return error() << "a block takes " << units << " units of the range: at least 1 is needed";
  // (C3)
  if (shared < 0 || blocks < 0)
    return error() << "negative shared memory (" << shared << ") or number of blocks (" << blocks << ")";
  return success();
}

LogicalResult ScheduleAttr::verify(function_ref<InFlightDiagnostic()> error, FlatSymbolRefAttr kernel, Form form,
                                   uint64_t extent, uint64_t grain, uint64_t flatBlock, uint64_t hasAdd,
                                   DenseI64ArrayAttr scalars, DenseI64ArrayAttr buffers) {
  // (C1)
  ArrayRef<int64_t> numbers = buffers.asArrayRef();
  if (numbers.size() % 3)
    return error() << kernel << ": buffers have three numbers each, these are " << numbers.size();
  for (; !numbers.empty(); numbers = numbers.drop_front(3)) {
    const int64_t kind = numbers[0], index = numbers[1], written = numbers[2];
    if (kind < 0 || kind > 2 || index < 0 || written < 0 || written > 1)
      return error() << kernel << ": no buffer is (" << kind << ", " << index << ", " << written << ")";
    // (C2)
    if (kind != 2 && written != kind)
      return error() << kernel << ": " << (kind ? "result " : "operand ") << index << " is "
                     << (kind ? "not written" : "written");
  }
  // (C3)
  if (grain == 0 || (extent == 0 && flatBlock == 0))
    return error() << kernel << ": grain is " << grain << ", extent is " << extent << " and flat_block is "
                   << flatBlock;
  // (C4)
  if (!scalars.empty() && (flatBlock == 0 || scalars.size() != 2))
    return error() << kernel << ": a kernel over a flat range has two scalars, others none; this one has "
                   << scalars.size();
  return success();
}

LogicalResult ObjectAttr::verify(function_ref<InFlightDiagnostic()> error, ObjectKind kind,
                                 DenseResourceElementsAttr data, ArrayAttr launches, StringAttr architecture) {
  // (C1)
  if (!data.getType().getElementType().isInteger(8))
    return error() << "machine code is bytes, not " << data.getType();
  // (C2)
  if (kind == ObjectKind::Host && !launches.empty())
    return error() << "kernels for processors have no launches, these are " << launches.size();
  for (Attribute launch : launches)
    if (!isa<LaunchAttr>(launch))
      return error() << "launches are #kernel.launch, not " << launch;
  // (C3)
  const bool isCubin = kind == ObjectKind::Cubin;
  if (isCubin != bool(architecture) || (isCubin && !architecture.getValue().starts_with("sm_")))
    return error() << "C3: machine code of kind " << stringifyObjectKind(kind) << " with architecture "
                   << (architecture ? architecture.getValue() : "none");
  return success();
}

ObjectAttr FuncOp::getObject(ObjectKind kind, StringRef architecture) {
  if (ArrayAttr objects = getObjectsAttr())
    for (auto object : objects.getAsRange<ObjectAttr>())
      if (object.getKind() == kind && (!object.getArchitecture() || object.getArchitecture() == architecture))
        return object;
  return {};
}

ParseResult FuncOp::parse(OpAsmParser &parser, OperationState &result) {
  auto typeOf = [](Builder &builder, ArrayRef<Type> inputs, ArrayRef<Type> results,
                   function_interface_impl::VariadicFlag,
                   std::string &) { return builder.getFunctionType(inputs, results); };
  return function_interface_impl::parseFunctionOp(parser, result, /*allowVariadic=*/false,
                                                  getFunctionTypeAttrName(result.name), typeOf,
                                                  getArgAttrsAttrName(result.name), getResAttrsAttrName(result.name));
}

void FuncOp::print(OpAsmPrinter &printer) {
  function_interface_impl::printFunctionOp(printer, *this, /*isVariadic=*/false, getFunctionTypeAttrName(),
                                           getArgAttrsAttrName(), getResAttrsAttrName());
}

LogicalResult FuncOp::verify() {
  // (C1): FunctionOpInterface holds block arguments against operands.
  if (!llvm::hasSingleElement(getBody()))
    return emitOpError("C1: its body has ") << getBody().getBlocks().size() << " blocks";
  auto end = dyn_cast<ReturnOp>(getBody().front().getTerminator());
  if (!end || end.getOperandTypes() != TypeRange(getResultTypes()))
    return emitOpError("C1: its body ends with values of other types than its results have");
  // (C2)
  if (getSchedules().empty())
    return emitOpError("C2: has no launch");
  SmallVector<bool> written(getResultTypes().size(), false);
  for (auto schedule : getSchedules().getAsRange<ScheduleAttr>())
    for (ArrayRef<int64_t> left = schedule.getBuffers(); !left.empty(); left = left.drop_front(3)) {
      const size_t count = left[0] == 0 ? getArgumentTypes().size() : left[0] == 1 ? written.size() : 1;
      // (C3)
      if (size_t(left[1]) >= count)
        return emitOpError("C3: ") << schedule.getKernel() << " has a buffer for "
                                   << (left[0] == 0   ? "operand "
                                       : left[0] == 1 ? "result "
                                                      : "workspace ")
                                   << left[1] << " of " << count;
      if (left[0] == 1)
        written[left[1]] = true;
    }
  // (C4)
  for (auto [number, isWritten] : llvm::enumerate(written))
    if (!isWritten)
      return emitOpError("C4: no launch writes result ") << number;
  // (C5)
  if (std::optional<ArrayRef<int64_t>> numbers = getClasses(); numbers && numbers->size() != written.size())
    return emitOpError("C5: has ") << numbers->size() << " classes for " << written.size() << " results";
  // (C6)
  SmallVector<std::pair<ObjectKind, StringAttr>> kinds;
  const ArrayAttr objects = getObjectsAttr();
  for (Attribute held : objects ? objects.getValue() : ArrayRef<Attribute>()) {
    auto object = cast<ObjectAttr>(held);
    const StringRef kind = stringifyObjectKind(object.getKind());
    if (llvm::is_contained(kinds, std::pair(object.getKind(), object.getArchitecture())))
      return emitOpError("C6: has two objects of kind ")
             << kind << (object.getArchitecture() ? " for " : "")
             << (object.getArchitecture() ? object.getArchitecture().getValue() : "");
    kinds.push_back({object.getKind(), object.getArchitecture()});
    if (object.getKind() != ObjectKind::Host && object.getLaunches().size() != getSchedules().size())
      return emitOpError("C6: ") << (object.getKind() == ObjectKind::Ptx ? "PTX" : kind) << " for "
                                 << getSchedules().size() << " schedules has " << object.getLaunches().size()
                                 << " launches";
  }
  return success();
}

} // namespace ztc::kernel
