// What a model would need with other options.
#pragma once
#include "compiler/Driver/Session.h"
#include <optional>

namespace ztc::driver {

/// One model up to phase `shard`, measured on any number of ranks with everything computed again that saves memory.
class Trial {
public:
  explicit Trial(CompileOptions options);

  /// The smallest peak, without the reserve; none where the model does not compile, after a diagnostic.
  std::optional<uint64_t> smallestPeak(unsigned world);
  struct Ranks {
    unsigned ranks;
    uint64_t peakBytes; ///< of each
  };
  /// `first`, twice, four times ... as many ranks: the first number whose peak is at most `budgetBytes`, or else the
  /// one with the smallest peak. None as above.
  std::optional<Ranks> moreRanks(unsigned first, uint64_t budgetBytes);
  /// A number that the module has as an attribute; 0 where it has none.
  int64_t attribute(llvm::StringRef name);

private:
  Session session;
  std::optional<StepProbe> probe;
};

} // namespace ztc::driver
