// What a model would need with other options.
#pragma once
#include "compiler/Driver/Session.h"
#include <optional>

namespace ztc::driver {

/// At most so many ranks are tried where more may help.
constexpr unsigned kMostTriedRanks = 1024;

/// One model up to phase `shard`, measured on any number of ranks with everything computed again that saves memory, and
/// with what --host-mem and --disk have room for where the options open a space below the device.
class Trial {
public:
  explicit Trial(CompileOptions options);

  /// The step with the smallest peak on the ranks that --mem holds for, without the reserve; none where the model does
  /// not compile, after a diagnostic. `used`: options that differ in nothing that phase `shard` and those before read.
  std::optional<StepMeasure> smallest(const CompileOptions &used);
  /// That peak, with the options of the trial.
  std::optional<uint64_t> smallestPeak();
  struct Ranks {
    unsigned ranks;
    uint64_t peakBytes; ///< of each, without the reserve
    bool fits;          ///< into what --mem leaves beside the reserve of so many ranks
  };
  /// `first`, twice, four times ... as many ranks: the first number that fits, or else the one with the smallest peak.
  /// None as above.
  std::optional<Ranks> moreRanks(unsigned first);
  /// Session::leastRoomBelow(); none where the model does not compile, too.
  std::optional<uint64_t> leastRoomBelow(bool inFile);
  /// A number that the module has as an attribute; 0 where it has none.
  int64_t attribute(llvm::StringRef name);

private:
  Session session;
  CompileOptions options;                   ///< with what IR of --from says
  std::optional<StepProbe> probe;           ///< with everything on the device
  std::optional<Session::Snapshot> sharded; ///< in place of that where the options open a space below the device
};

/// The options on so many ranks, which share the rows of a step. None where they cannot.
std::optional<CompileOptions> onRanks(CompileOptions options, unsigned world);

} // namespace ztc::driver
