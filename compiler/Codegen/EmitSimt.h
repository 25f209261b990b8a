// GPU kernels for a machine without a GPU: the LLVM IR that NVPTX would get, compiled for x86-64.
#pragma once
#include "compiler/Codegen/Codegen.h"
#include "llvm/Support/Error.h"

namespace llvm {
class Module;
}

namespace ztc::codegen {

/// Compiles `module`, which it consumes, to an ELF shared object that tests/standin runs. A kernel's symbol takes
/// `void *const *parameters`, pointers to its parameters. NVVM intrinsics are imports, with '_' for '.' in their names;
/// ztc_simt_read, ztc_simt_write and ztc_simt_atomic_write (address, bytes) are called before each access to global
/// memory. Shared memory is an ordinary variable. Thread-safe.
llvm::Error emitSimt(llvm::Module &module, KernelImage &image);

} // namespace ztc::codegen
