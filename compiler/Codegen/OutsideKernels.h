// Machine code of kernels that is not generated here.
#pragma once
#include <string>
#include <vector>

namespace ztc::codegen {

/// What goes into an image beside generated kernels: ELF objects for x86-64, or texts of PTX, and the symbols that they
/// must define.
struct OutsideKernels {
  std::vector<std::string> pieces;
  std::vector<std::string> symbols;
};

} // namespace ztc::codegen
