// From a lowered module of GPU kernels to PTX and machine code.
#pragma once
#include "compiler/Codegen/Codegen.h"
#include "compiler/Codegen/OutsideKernels.h"
#include "llvm/Support/Error.h"

namespace llvm {
class Module;
} // namespace llvm

namespace ztc::codegen {

class KernelCache;

/// Optimises `module`, kernels for NVPTX with NVVM intrinsics and the attributes that say the size of their blocks, for
/// `cpu`, a name of DeviceTargets.h.
llvm::Error prepareForGpu(llvm::Module &module, llvm::StringRef cpu);

/// The assembler of the CUDA toolkit on this machine: below CUDA_HOME or CUDA_PATH, in PATH, in the usual folders;
/// empty if there is none.
std::string findPtxas();

/// The key under which a KernelCache has the image of kernels of these contents (KernelContent.h) for `target` by the
/// assembler of this machine, without anything from outside.
std::string cubinKey(llvm::StringRef target, llvm::ArrayRef<std::string> contents);

/// Compiles `module`, which it consumes, for image.target and fills in bytes and resources: a cubin, or PTX for the
/// driver to compile where there is no assembler. An error carries the assembler's message. Thread-safe. `outside`:
/// texts of PTX that become part of it, and the entries that these must have. What `cache` has of the same module,
/// outside and assembler is taken from there; `known`, which it had under cubinKey(), makes all of it unnecessary where
/// it is not empty. `contents` of all kernels, where they are known.
llvm::Error emitCubin(llvm::Module &module, KernelImage &image, const OutsideKernels &outside, const KernelCache &cache,
                      llvm::ArrayRef<std::string> contents = {}, llvm::StringRef known = {});

} // namespace ztc::codegen
