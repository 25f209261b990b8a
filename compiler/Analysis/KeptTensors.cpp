#include "compiler/Analysis/KeptTensors.h"
#include "compiler/Analysis/OffloadChoice.h"
#include "runtime/Format/Steps/LossRows.h"
#include "llvm/ADT/StringRef.h"
#include <algorithm>
#include <map>
#include <tuple>

namespace ztc {

std::vector<KeptTensor> keptTensors(const plan::Plan &plan) {
  const auto count = size_t(plan.slots_size());
  std::vector<bool> before(count), after(count);
  for (const plan::Program &program : plan.programs()) {
    if (program.name() != "microstep")
      continue;
    int loss = program.steps_size();
    for (int s = 0; s < program.steps_size(); ++s)
      if (isTrainingLoss(program.steps(s)))
        loss = s;
    for (int s = 0; s < program.steps_size(); ++s)
      if (const plan::Step &step = program.steps(s);
          s != loss && step.stream() == 0 && !step.has_wait() && !step.has_record())
        for (const plan::Operand &operand : step.operands())
          if (operand.slot() < count)
            (s < loss ? before : after)[operand.slot()] = true;
  }
  std::vector<KeptTensor> kept;
  std::map<std::string, uint64_t> largest; // of the blocks, by tensor
  for (size_t i = 0; i < count; ++i) {
    const plan::Slot &slot = plan.slots(int(i));
    if (slot.slot_class() != plan::ACTIVATIONS || slot.layer() < 0 || slot.size().kind() != plan::SizeForm::CONSTANT ||
        slot.size().has_gpu_elements())
      continue;
    llvm::StringRef name = slot.name();
    if (slot.space() == plan::DEVICE ? slot.persistent() || !before[i] || !after[i] : !name.consume_back(".below"))
      continue;
    kept.push_back(
        {keptTensorName(name), slot.layer(), slot.size().elements() * slot.size().element_bytes(), slot.space()});
    uint64_t &most = largest[kept.back().name];
    most = std::max(most, kept.back().bytes);
  }
  std::sort(kept.begin(), kept.end(), [&](const KeptTensor &a, const KeptTensor &b) {
    return std::make_tuple(largest[b.name], std::cref(a.name), a.layer) <
           std::make_tuple(largest[a.name], std::cref(b.name), b.layer);
  });
  return kept;
}

} // namespace ztc
