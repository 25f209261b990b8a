// The table of `ztc plan`: what is possible, in bytes and seconds.
#pragma once
#include "compiler/Support/Formats.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ztc::report {

/// One way to train a model, measured.
struct TrainingChoice {
  TrainingMethod method = TrainingMethod::Full;
  std::vector<std::string> changes; ///< what of the result's numbers it changes within its method; empty: nothing
  unsigned world = 1, stage = 0;
  uint64_t batch = 1;              ///< rows of a micro-batch
  unsigned accumulate = 1;         ///< micro-batches of a step
  uint64_t sequence = 0;           ///< tokens of a row
  std::string recomputed;          ///< in words
  uint64_t peakBytes = 0;          ///< the arena of a rank
  uint64_t neededBytes = 0;        ///< with the reserve
  uint64_t availableBytes = 0;     ///< of a rank
  uint64_t hostBytes = 0;          ///< of a rank that lie in the host's memory, below the device
  uint64_t diskBytes = 0;          ///< the same in a file
  double seconds = 0;              ///< of a step, by the cost model
  std::string compile, run;        ///< the commands
  std::optional<uint64_t> longest; ///< tokens of the longest row that fits so; only of what is recommended

  bool fits() const { return neededBytes <= availableBytes; }
  double tokensPerSecond() const { return double(world) * accumulate * double(batch * sequence) / seconds; }
};

/// All of a choice as an object of JSON, with what follows from it; what stands in the object again, none where it is
/// not one.
llvm::json::Object toJson(const TrainingChoice &choice);
std::optional<TrainingChoice> choiceFromJson(const llvm::json::Value &value);

/// What would make a choice fit that does not.
struct MissingMemory {
  TrainingChoice smallest; ///< with everything computed again that saves memory
  std::string help;        ///< the smallest change that would fit; "" where none was found
};

/// The data of --data in rows of a plan.
struct DataUse {
  uint64_t rows = 0;    ///< of one pass
  uint64_t targets = 0; ///< that count, of one pass
  double paddingShare = 0;
  std::optional<double> packedPaddingShare; ///< what packing would leave; where much is padding
  double epochs = 1;

  /// As a run with --epochs makes them.
  uint64_t steps(uint64_t globalBatch) const;
  double hours(const TrainingChoice &choice, uint64_t globalBatch) const {
    return double(steps(globalBatch)) * choice.seconds / 3600;
  }
};

/// What runs on a device took, in seconds that were predicted for them.
struct ErrorSeen {
  double least = 0, most = 0;
  unsigned runs = 0;
  std::string date; ///< of the last one
};

struct ChoiceTable {
  std::string model, device, precision;
  uint64_t availableBytes = 0, reserveBytes = 0; ///< of a rank; what is available holds the reserve
  uint64_t globalBatch = 0, sequence = 0;
  std::vector<TrainingChoice> choices;
  std::vector<MissingMemory> missing;
  std::optional<DataUse> data;
  std::optional<ErrorSeen> error;  ///< how far off seconds were on this device; none where none has run
  std::vector<size_t> recommended; ///< of `choices`: one for each number of ranks where any fits

  void printText(llvm::raw_ostream &out) const;
  void printJson(llvm::raw_ostream &out) const;
};

} // namespace ztc::report
