// What a plugin does to kernels where they are forms: gives a call one of its own, supplies machine code.
#pragma once
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Dialect/Kernel/Kernel.h"

namespace ztc::kernel {

/// The kernel.func that the kernels of `call` are made of; null before ztc-form-kernels and behind ztc-compile-kernels.
FuncOp formOf(graph::FusionOp call);

/// The kernel.func of `call` and of no other call: a clone with names of its own where others share it, which `call`
/// launches from here on. At KernelLevel::Forms, before kernels are mapped. Null, with a diagnostic, where there is no
/// form.
FuncOp makeOwn(graph::FusionOp call);

/// From here on the kernels of `form` are `bytes` for one kind of target (#kernel.object says which bytes, and what
/// they define); `launches`, of PTX, one per schedule. What was supplied for that kind before is dropped.
void supply(FuncOp form, ObjectKind kind, llvm::StringRef bytes, llvm::ArrayRef<LaunchAttr> launches = {});

} // namespace ztc::kernel
