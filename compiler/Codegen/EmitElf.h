// From a lowered module to position-independent shared objects.
#pragma once
#include "compiler/Codegen/OutsideKernels.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <string>

namespace llvm {
class Module;
}

namespace ztc::codegen {

/// Optimises `module` (which it consumes) for `cpu` (x86-64-v3, x86-64-v4), compiles it and links it to an ELF shared
/// object that needs no other library. Every function with external linkage is a dynamic symbol. Thread-safe; one call
/// links at a time. Errors name the symbol that stayed undefined, or what the code generator refused. `outside`:
/// objects that are linked into it, and the symbols that these must define.
llvm::Expected<std::string> emitElf(llvm::Module &module, llvm::StringRef cpu, const OutsideKernels &outside = {});

/// The same without optimising, for a module that was optimised for another target; symbols may stay undefined, to be
/// found when the object is loaded.
llvm::Expected<std::string> emitElfWithImports(llvm::Module &module, llvm::StringRef cpu,
                                               const OutsideKernels &outside = {});

} // namespace ztc::codegen
