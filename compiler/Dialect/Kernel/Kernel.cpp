#include "compiler/Dialect/Kernel/Kernel.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/TypeSwitch.h"

#include "compiler/Dialect/Kernel/KernelDialect.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "compiler/Dialect/Kernel/KernelAttributes.cpp.inc"

using namespace mlir;

namespace ztc::kernel {

/// Threads that a block may have on any GPU (CUDA C++ Programming Guide, "Compute Capabilities").
static constexpr int64_t kMaxThreads = 1024;

void KernelDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "compiler/Dialect/Kernel/KernelAttributes.cpp.inc"
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

} // namespace ztc::kernel
