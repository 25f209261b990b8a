// What transformer blocks keep for their backward, tensor by tensor.
#pragma once
#include "runtime/Format/plan.pb.h"
#include <string>
#include <vector>

namespace ztc {

/// A tensor that one block's forward leaves for its backward.
struct KeptTensor {
  std::string name; ///< keptTensorName() of its slot: the same in each block
  int layer;
  uint64_t bytes; ///< one rank's
  plan::Space space;
};

/// Of the micro-step of `plan` all whose size is the same on every device: on the device what is in use on both sides
/// of the loss, below it what passes/Offload/StageSlots.cpp has put there. By tensor and block: the largest tensor
/// first.
std::vector<KeptTensor> keptTensors(const plan::Plan &plan);

} // namespace ztc
