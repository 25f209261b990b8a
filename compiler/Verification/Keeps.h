// What a pass promises to leave as it is.
#pragma once

namespace ztc {

enum class Keeps {
  Meaning, ///< the mathematics: sums may be in another order, nothing else
  Bits,    ///< also every rounding
  Changes, ///< nothing: from here on the changed step is what later passes are held against
};

/// A pass that keeps something else than the meaning derives from this too. (A hook says it where it is registered,
/// PhaseHooks.)
class SaysWhatItKeeps {
public:
  virtual ~SaysWhatItKeeps() = default;
  virtual Keeps keeps() const = 0;
};

} // namespace ztc
