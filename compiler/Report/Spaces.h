// What lies in the memory spaces below the device's, and what moving it costs.
#pragma once
#include "compiler/Analysis/CostModel.h"
#include "runtime/Format/plan.pb.h"
#include "runtime/Memory/Traffic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"
#include <array>
#include <string>
#include <vector>

namespace ztc::report {

/// One of them.
struct SpaceUse {
  const char *name = ""; ///< host, disk
  LowerSpacePlan plan;
  uint64_t inBytes = 0, outBytes = 0; ///< moved per optimizer step; out: away from the device
  double seconds = 0;                 ///< that they take at the cost model's rate
  double bytesPerSecond = 0;          ///< that rate
  uint64_t updatedBytes = 0;          ///< that the host's cores read and write there per optimizer step
  double updateSeconds = 0;           ///< that they take
  std::string source;                 ///< where it is from: linkSource()
  /// What blocks keep for their backward, of which some lies here: in how many of the blocks that keep it.
  struct Tensor {
    std::string name; ///< keptTensorName()
    unsigned blocks = 0, ofBlocks = 0;
    uint64_t bytes = 0; ///< of those that lie here
  };
  std::vector<Tensor> tensors = {};
};
/// Host and disk, in this order.
std::array<SpaceUse, 2> spaceUses(const plan::Plan &plan, const MemoryPlan &memory, const PlanShape &shape);

/// A line for each that holds something, and one for what blocks keep there.
void printSpaces(llvm::raw_ostream &out, const std::array<SpaceUse, 2> &uses);
/// Attribute "spaces", where one holds something.
void writeSpaces(llvm::json::OStream &json, const std::array<SpaceUse, 2> &uses);

} // namespace ztc::report
