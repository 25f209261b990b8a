// Machine code of kernels that is not generated here.
#pragma once
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <string>
#include <vector>

namespace ztc::codegen {

/// What goes into an image beside generated kernels: ELF objects for x86-64, or texts of PTX, and the symbols that they
/// must define.
struct OutsideKernels {
  std::vector<std::string> pieces;
  std::vector<std::string> symbols;
};

/// Fails where `bytes`, of which anything may be wrong, are not a linked cubin for the processor `architecture`
/// (sm_90a; a cubin does not say whether it was made for sm_90 or sm_90a) that has an entry for each of `symbols`. What
/// is read: the ELF header (LLVM's ELF.h: EM_CUDA, e_flags) and the symbol table, whose entries say STO_CUDA_ENTRY.
llvm::Error checkCubin(llvm::StringRef bytes, llvm::StringRef architecture, llvm::ArrayRef<std::string> symbols);

} // namespace ztc::codegen
