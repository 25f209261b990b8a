// What a run knows of its ranks: handed from the program's main to runPlan and Session::open.
#pragma once
#include "runtime/Ranks/ControlChannel.h"
#include <cstdint>

namespace ztc {

class Communicator;

/// References stay valid for the whole run.
struct RankContext {
  ControlChannel &control;
  Communicator *communicator = nullptr; ///< null at one rank: there a collective is an alias
  uint32_t rank() const { return control.rank(); }
  uint32_t world() const { return control.world(); }
  /// Rank 0 talks to the person and writes the log.
  bool isFirst() const { return control.rank() == 0; }
};

} // namespace ztc
