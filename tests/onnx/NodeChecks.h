// What is asked of a node test.
#pragma once
#include "tests/onnx/NodeCase.h"
#include <array>

namespace ztc::test {

/// `Evaluate`: all inputs known, by the importer's evaluation. The others: floats are data, other inputs known.
enum class Check { Evaluate, Interpret, Generate, Gradient };
inline constexpr std::array<Check, 4> kChecks = {Check::Evaluate, Check::Interpret, Check::Generate, Check::Gradient};
inline constexpr std::array<const char *, 4> kCheckNames = {"evaluate", "interpret", "generate", "gradient"};

struct Outcome {
  enum Kind { Passed, Failed, NotAsked } kind = NotAsked;
  std::string reason; ///< of a failure: one line
};
using Outcomes = std::array<Outcome, 4>;

/// Runs all checks; what an earlier one rules out is a failure with its reason.
Outcomes runChecks(const NodeCase &node);

} // namespace ztc::test
