// What is asked of a node test.
#pragma once
#include "tests/onnx/NodeCase.h"
#include <array>

namespace ztc::test {

/// `evaluate`: all inputs known, by the importer's evaluation. `interpret`, `generate` and `gradient`: floats are data,
/// other inputs known. `indices`: the last three once more with indices, targets and masks as data too.
inline constexpr std::array<const char *, 5> kCheckNames = {"evaluate", "interpret", "generate", "gradient", "indices"};

struct Outcome {
  enum Kind { Passed, Failed, NotAsked } kind = NotAsked;
  std::string reason; ///< of a failure: one line
};
using Outcomes = std::array<Outcome, 5>;

/// Runs all checks; what an earlier one rules out is a failure with its reason.
Outcomes runChecks(const NodeCase &node);

} // namespace ztc::test
