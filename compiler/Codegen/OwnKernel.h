// What a plugin does to kernels where they are forms: gives a call one of its own, supplies machine code.
#pragma once
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Dialect/Kernel/Kernel.h"

namespace ztc::kernel {

/// The kernel.func that the kernels of `call` are made of; null before ztc-form-kernels and after ztc-compile-kernels.
FuncOp formOf(graph::FusionOp call);

/// The kernel.func of `call` and of no other call: a clone with names of its own where others share it, which `call`
/// launches from here on. At KernelLevel::Forms, before kernels are mapped. Null, with a diagnostic, where there is no
/// form.
FuncOp makeOwn(graph::FusionOp call);

/// From here on the kernels of `form` are `bytes` for one kind of target (#kernel.object says which bytes, and what
/// they define); `launches`, for GPUs, one per schedule; `architecture`, of a cubin, is its GPU's, sm_90a. What was
/// supplied for that kind and architecture before is dropped. Bytes that are not what they should be, or that lack a
/// symbol, are a diagnostic of ztc-compile-kernels.
void supply(FuncOp form, ObjectKind kind, llvm::StringRef bytes, llvm::ArrayRef<LaunchAttr> launches = {},
            llvm::StringRef architecture = {});

} // namespace ztc::kernel
