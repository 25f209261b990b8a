// What every back end of the code generator does alike with LLVM.
#pragma once
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/CodeGen.h"
#include "llvm/Support/Error.h"
#include <memory>
#include <optional>

namespace llvm {
class Module;
class TargetMachine;
} // namespace llvm

namespace ztc::codegen {

/// The code generator of a target that has been initialised. It contracts nothing: math.fma only where it is written.
/// Errors say what LLVM lacks.
llvm::Expected<std::unique_ptr<llvm::TargetMachine>> createTargetMachine(llvm::StringRef triple, llvm::StringRef cpu,
                                                                         llvm::StringRef features,
                                                                         std::optional<llvm::Reloc::Model> relocation,
                                                                         llvm::CodeGenOptLevel level);

/// LLVM's default pipeline at -O2 without its vectorisers: the emitters write vectors themselves, and a vectoriser may
/// not change what the lanes of a sum are.
void optimizeKernels(llvm::Module &module, llvm::TargetMachine &machine);

} // namespace ztc::codegen
