// The ways to train that `ztc plan` looks at, and the commands that do one.
#pragma once
#include "compiler/Analysis/GpuModels.h"
#include "compiler/Driver/Options.h"
#include "compiler/Report/Choices.h"
#include "llvm/ADT/ArrayRef.h"

namespace ztc::driver {

/// A method with what it changes.
struct PlanMethod {
  TrainingMethod name;
  const char *lora = nullptr;
  FrozenFormat quantize = FrozenFormat::Plain;
  std::optional<StateFormat> optimizerState = std::nullopt;
  std::optional<MasterFormat> masters = std::nullopt;
  bool updatesInBackward = false;

  /// Of the numbers, in words; empty: nothing.
  std::vector<std::string> changes() const;
  /// Whether options of this precision can have it.
  bool isFor(const CompileOptions &options) const;
};
/// Full, LoRA, QLoRA; of each the most faithful first.
llvm::ArrayRef<PlanMethod> planMethods();

/// What all rows of a table share.
struct PlanScope {
  CompileOptions options;        ///< as they were given
  const GpuModel *gpu = nullptr; ///< null: the host
  uint64_t availableBytes = 0;   ///< of a rank, the reserve included
  uint64_t reserveBytes = 0;
  uint64_t globalBatch = 0;
  std::string runOptions; ///< what other trainers' files say to ztc-run

  /// The options of a compilation by this method.
  CompileOptions optionsOf(const PlanMethod &method, uint64_t batch) const;
  /// Whether anything may lie below the device.
  bool hasSpaceBelow() const { return hostMemory() || !options.disk.empty(); }
  /// Lets what need not lie on the device lie below it.
  void openSpaces(CompileOptions &used) const;
  /// Fills `compile` and `run` of a choice that was measured with these options.
  void addCommands(report::TrainingChoice &choice, const CompileOptions &used) const;

private:
  /// What a rank may take of the host's memory for what lies below the device.
  uint64_t hostMemory() const;
};

} // namespace ztc::driver
