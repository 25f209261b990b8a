// `ztc plan --verify=N`: choices run here for some steps, and what that says of the model's seconds is kept.
#pragma once
#include "compiler/Report/Choices.h"
#include <optional>
#include <string>
#include <vector>

namespace ztc::driver {

/// A choice that was compiled and run; seconds of a step, 0 where it did not run, with the reason.
struct ChoiceRun {
  report::TrainingChoice choice;
  double measuredSeconds = 0;
  std::string problem;
};

/// Compiles and runs the `count` fastest choices of the group of the first recommended one, on random tokens for five
/// steps each, of which the first two are not counted. `file` gets a line of JSON for each that ran: device, date,
/// model, seconds predicted and measured.
std::vector<ChoiceRun> runChoices(const report::ChoiceTable &table, unsigned count, const std::string &file);
/// A line for each.
void printRuns(llvm::raw_ostream &out, llvm::ArrayRef<ChoiceRun> runs);
/// How far off seconds were on this device until now; none where `file` knows of no run on it.
std::optional<report::ErrorSeen> errorSeen(const std::string &file, const std::string &device);

} // namespace ztc::driver
