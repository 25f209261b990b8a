// From a lowered module to position-independent shared objects.
#pragma once
#include "compiler/Codegen/CompileParts.h"
#include "compiler/Codegen/OutsideKernels.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <string>

namespace llvm {
class Module;
} // namespace llvm

namespace ztc::codegen {

class KernelCache;

/// Compiles the functions of `module` for `cpu` (x86-64-v3, x86-64-v4), each by itself (CompileParts.h), and links them
/// to an ELF shared object that needs no other library. Every function with external linkage is a dynamic symbol.
/// Thread-safe; one call links at a time. Errors name the symbol that stayed undefined, or what the code generator
/// refused. `outside`: objects that are linked into it, and the symbols that these must define.
llvm::Expected<std::string> emitElf(const llvm::Module &module, llvm::StringRef cpu, const OutsideKernels &outside,
                                    const KernelCache &cache, const KnownKernels &known);

/// An object file of `module`, which it consumes, for `cpu`. `isOptimized`: it was optimised already, for another
/// target. Thread-safe.
llvm::Expected<std::string> emitObject(llvm::Module &module, llvm::StringRef cpu, bool isOptimized);

/// A shared object of `objects` and of what comes from outside. `imports`: symbols may stay undefined, to be found when
/// it is loaded. Thread-safe; one call links at a time.
llvm::Expected<std::string> linkObjects(llvm::ArrayRef<std::string> objects, bool imports,
                                        const OutsideKernels &outside);

} // namespace ztc::codegen
