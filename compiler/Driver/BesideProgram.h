// Programs of the same build: ztc runs ztc and ztc-run, to measure and to ask.
#pragma once
#include "compiler/Support/ScratchFolder.h"
#include "mlir/Support/LLVM.h"
#include "llvm/ADT/ArrayRef.h"
#include <string>

namespace ztc::driver {

/// Runs the program `words.front()`, which lies beside this one. "" where it ends with status 0, else what it said
/// last. `output` gets what it wrote on stdout. Files of a short while go into `folder`. A run that takes longer than
/// 15 minutes is given up.
std::string runBeside(llvm::ArrayRef<std::string> words, const ScratchFolder &folder, std::string *output = nullptr);

} // namespace ztc::driver
