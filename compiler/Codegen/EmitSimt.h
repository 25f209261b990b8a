// GPU kernels for a machine without a GPU: the LLVM IR that NVPTX would get, compiled for x86-64.
#pragma once
#include "compiler/Codegen/Codegen.h"
#include "compiler/Codegen/CompileParts.h"
#include "compiler/Codegen/OutsideKernels.h"
#include "llvm/Support/Error.h"

namespace llvm {
class Module;
} // namespace llvm

namespace ztc::codegen {

class KernelCache;

/// What asks a GPU for the line of global memory at a pointer ahead of time, as inline PTX. It computes nothing: this
/// target leaves it out.
inline constexpr llvm::StringLiteral kPrefetch = "prefetch.global.L2 [$0];";

/// Compiles the kernels of `module`, each by itself (CompileParts.h), to an ELF shared object that tests/standin runs.
/// A kernel's symbol takes `void *const *parameters`, pointers to its parameters. NVVM intrinsics are imports, with '_'
/// for '.' in their names; ztc_simt_read, ztc_simt_write and ztc_simt_atomic_write (address, bytes) are called before
/// each access to global memory. Shared memory is an ordinary variable. Thread-safe. `outside`: objects for x86-64
/// whose functions are called in the same way, which are linked into it, and the symbols that these must define; NVVM's
/// intrinsics are imports of theirs too, and an access that they do not report is not looked at.
llvm::Error emitSimt(const llvm::Module &module, KernelImage &image, const OutsideKernels &outside,
                     const KernelCache &cache, const KnownKernels &known);

} // namespace ztc::codegen
