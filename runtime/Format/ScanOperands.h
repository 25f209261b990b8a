// The operands of a selective_scan step in their order: one list for the validator and the devices.
#pragma once
#include "runtime/Format/ScanSizes.h"
#include "runtime/Format/Steps/StepCheck.h"
#include "runtime/Format/plan.pb.h"
#include <vector>

namespace ztc {

struct ScanOperand {
  const char *name;
  CheckedBytes bytes; ///< 0 for the scratch, whose size is the device's matter
};

/// Which operand of the gradient is its scratch.
inline constexpr size_t kScanScratchOperand = 12;

/// The chunk must not be 0.
inline std::vector<ScanOperand> scanOperands(const plan::SelectiveScan &scan) {
  const CheckedBytes places = CheckedBytes(scan.batch()) * scan.positions() * 4;
  const CheckedBytes values = places * scan.channels(), shared = places * scan.states();
  const CheckedBytes rates = CheckedBytes(scan.states()) * scan.channels() * 4;
  const CheckedBytes states = rates * scan.batch() * scanChunks(scan.positions(), scan.chunk());
  const CheckedBytes parts = shared * scanGroups(scan.channels());
  std::vector<ScanOperand> operands = {{"v", values}, {"delta", values}, {"rate", rates}, {"b", shared}, {"c", shared}};
  if (scan.grad())
    operands.insert(operands.end(), {{"states", states},
                                     {"dy", values},
                                     {"dv", values},
                                     {"ddelta", values},
                                     {"drate", rates * scan.batch()},
                                     {"db", parts},
                                     {"dc", parts},
                                     {"scratch", 0}});
  else
    operands.insert(operands.end(), {{"y", values}, {"states", states}});
  if (scan.packed())
    operands.push_back({"document_starts", places});
  return operands;
}

} // namespace ztc
