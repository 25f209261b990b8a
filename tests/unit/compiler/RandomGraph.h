// Random models of graph ops, and one step of a model by the whole compiler on this machine against the interpreter.
#pragma once
#include "compiler/Support/Formats.h"
#include <cstdint>
#include <string>

namespace ztc::test {

/// A module with @forward whose ops, shapes and wiring follow from the seed. Values stay within a few units.
std::string randomModel(uint64_t seed);

struct StepOptions {
  unsigned zero = 0;
  StoragePrecision precision = StoragePrecision::Fp32;
  std::string recompute; ///< a level, or nothing
  double tolerance =
      2e-4; ///< of the loss, and of each gradient's |difference| / (|expected| + 1e-3 * |all gradients|), L2
};

/// Compiles the module for the host, runs one micro-step on random tokens and parameters and compares the loss, every
/// gradient and the logits of one row with what the interpreter makes of the differentiated module in double precision.
/// Returns "", or what went wrong.
std::string compareStep(const std::string &text, const StepOptions &options, uint64_t seed);

} // namespace ztc::test
