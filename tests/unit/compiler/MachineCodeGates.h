// What the machine code of generated kernels is held to; the PTX gates of GeneratedCodeTests say which buffers rows let
// access 16 bytes at a time, these that the assembler left it so and what else it made of the kernels.
#pragma once
#include "compiler/Codegen/Codegen.h"
#include <map>
#include <string>

namespace ztc {

struct MachineCodeForm {
  std::string form;
  bool wideLoads = true, wideStores = true; ///< rows let everything larger than a few numbers move 16 bytes at a time
  bool byMatrices = false;                  ///< attention and grouped products by the matrix instruction
};

/// Holds every kernel of the image to the rules of its family; `forms` has what is known of each. False where there is
/// no disassembler on this machine. ZTC_MACHINE_CODE_TABLE names a file to which a line for each kernel is appended:
/// what its hottest loop consists of.
bool checkMachineCode(const KernelImage &image, const std::map<std::string, MachineCodeForm> &forms);

} // namespace ztc
