#include "compiler/Analysis/KeptCodes.h"
#include "compiler/Analysis/MostThatFit.h"
#include "compiler/Analysis/ProgramEdits.h"
#include "runtime/Core/Sizes.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace ztc {
namespace {

/// A weight: its bucket, where it begins there, and its sizes.
using WeightPlace = std::tuple<uint32_t, uint64_t, uint64_t, uint64_t>;

/// The steps of `microstep` that make a weight's codes, in order; in between nothing changes the weight.
using WeightCodes = std::map<WeightPlace, llvm::SmallVector<int, 4>>;
using WeightSteps = std::pair<WeightPlace, llvm::SmallVector<int, 4>>;

/// Operands of a step of codes: x, scale, workspace, codes in one or two orders, and what the scale is made of.
constexpr int kMatrix = 0, kScale = 1, kCodes = 3;

int codesByColumns(const plan::QuantizeFp8 &call) {
  return kCodes + int(call.by_rows());
}
int givenAmax(const plan::QuantizeFp8 &call) {
  return kCodes + int(call.by_rows()) + int(call.by_columns());
}

/// The bucket whose parameters a slot holds, on the device, whole: by slot.
llvm::DenseMap<uint32_t, uint32_t> bucketsOfParameters(const plan::Plan &plan, const plan::Program &microstep) {
  llvm::DenseMap<uint32_t, uint32_t> buckets, ofShards;
  for (int i = 0; i < plan.buckets_size(); ++i) {
    const uint32_t slot = plan.buckets(i).parameter_slot();
    if (slot >= uint32_t(plan.slots_size()))
      continue;
    ofShards[slot] = uint32_t(i);
    if (plan.slots(int(slot)).space() == plan::DEVICE)
      buckets[slot] = uint32_t(i);
  }
  for (const plan::Step &step : microstep.steps())
    if (step.has_collective() && step.collective().kind() == plan::Collective::ALL_GATHER && step.operands_size() == 2)
      if (const auto shard = ofShards.find(step.operands(0).slot()); shard != ofShards.end())
        buckets[step.operands(1).slot()] = shard->second;
  return buckets;
}

/// The weights whose codes can be kept.
WeightCodes weightCodes(const plan::Plan &plan) {
  WeightCodes weights;
  const plan::Program *microstep = programOf(plan, "microstep");
  if (!microstep)
    return weights;
  const llvm::DenseMap<uint32_t, uint32_t> buckets = bucketsOfParameters(plan, *microstep);
  llvm::DenseSet<uint32_t> written; // by updates in the backward
  for (int i = 0; i < microstep->steps_size(); ++i) {
    const plan::Step &step = microstep->steps(i);
    if (!step.has_collective() && !step.has_wait())
      for (const plan::Operand &operand : step.operands())
        if (operand.access() != plan::Operand::READ)
          written.insert(operand.slot());
    if (!step.has_quantize_fp8())
      continue;
    const plan::Operand &matrix = step.operands(kMatrix);
    const auto bucket = buckets.find(matrix.slot());
    if (bucket != buckets.end() && !written.contains(matrix.slot()))
      weights[{bucket->second, matrix.offset(), step.quantize_fp8().rows(), step.quantize_fp8().columns()}].push_back(
          i);
  }
  return weights;
}

/// A step that makes codes in both orders of the same types as `call`, whose kernels do it for any matrix whose scale
/// is its own; null where the plan has none, as with delayed scaling, whose other steps know their scales.
const plan::Step *stepOfBothOrders(const plan::Program &program, const plan::QuantizeFp8 &call) {
  for (const plan::Step &step : program.steps())
    if (step.has_quantize_fp8() && !step.quantize_fp8().known_scale() && step.quantize_fp8().by_rows() &&
        step.quantize_fp8().by_columns() && step.quantize_fp8().from() == call.from() &&
        step.quantize_fp8().to() == call.to())
      return &step;
  return nullptr;
}

/// Lets the first step of each of these weights make all of its codes, in the first micro-step alone.
class CodeKeeper {
public:
  /// Of a plan that has weights with codes, and so a micro-step.
  explicit CodeKeeper(plan::Plan &plan) : plan(plan), program(*programOf(plan, "microstep")) {}

  void keep(llvm::ArrayRef<WeightSteps> weights) {
    for (const auto &[place, steps] : weights)
      keep(steps);
    dropSteps(program, dropped, instead);
    findMaximaOnce();
  }

private:
  void keep(llvm::ArrayRef<int> steps) {
    plan::Step &first = *program.mutable_steps(steps.front());
    // By order: rows, columns.
    const plan::Operand *codes[2] = {};
    for (int i : steps) {
      const plan::QuantizeFp8 &call = program.steps(i).quantize_fp8();
      if (call.by_rows() && !codes[0])
        codes[0] = &program.steps(i).operands(kCodes);
      if (call.by_columns() && !codes[1])
        codes[1] = &program.steps(i).operands(codesByColumns(call));
    }
    const plan::Step *both = codes[0] && codes[1] ? stepOfBothOrders(program, first.quantize_fp8()) : nullptr;
    bool made[2] = {};
    for (int i : steps) {
      plan::Step &step = *program.mutable_steps(i);
      const plan::QuantizeFp8 &call = step.quantize_fp8();
      // What this step gives and an earlier one has given.
      instead[step.operands(kScale).slot()] = first.operands(kScale).slot();
      if (call.by_rows())
        instead[step.operands(kCodes).slot()] = codes[0]->slot();
      if (call.by_columns())
        instead[step.operands(codesByColumns(call)).slot()] = codes[1]->slot();
      const bool isNew = (call.by_rows() && !made[0]) || (call.by_columns() && !made[1]);
      made[0] |= call.by_rows();
      made[1] |= call.by_columns();
      if (!isNew || (both && &step != &first)) {
        dropped.insert(i);
        continue;
      }
      step.set_only_first_microstep(true);
    }
    for (const plan::Operand *kept : {&first.operands(kScale), codes[0], codes[1]})
      if (kept) {
        plan::Slot &slot = *plan.mutable_slots(int(kept->slot()));
        slot.set_kept(true);
        slot.set_reason("of the fp8 codes of a weight, kept to the backward and over micro-steps");
      }
    if (both && &first != both && !(first.quantize_fp8().by_rows() && first.quantize_fp8().by_columns()))
      makeBoth(first, *codes[0], *codes[1], both->quantize_fp8());
  }

  /// `step` makes codes in both orders, by the kernels of another step.
  static void makeBoth(plan::Step &step, const plan::Operand &rows, const plan::Operand &columns,
                       const plan::QuantizeFp8 &like) {
    plan::QuantizeFp8 &call = *step.mutable_quantize_fp8();
    google::protobuf::RepeatedPtrField<plan::Operand> operands;
    for (int i = 0; i < kCodes; ++i)
      *operands.Add() = step.operands(i);
    *operands.Add() = rows;
    *operands.Add() = columns;
    for (int i = givenAmax(call); i < step.operands_size(); ++i)
      *operands.Add() = step.operands(i);
    step.mutable_operands()->Swap(&operands);
    call.set_by_rows(true);
    call.set_by_columns(true);
    *call.mutable_gpu_kernels() = like.gpu_kernels();
  }

  /// Absolute maxima that only such steps read are found where these are executed.
  void findMaximaOnce() {
    llvm::DenseSet<uint32_t> given, others;
    for (const plan::Step &step : program.steps()) {
      const bool isKept = step.has_quantize_fp8() && step.only_first_microstep();
      for (auto [i, operand] : llvm::enumerate(step.operands()))
        if (operand.access() != plan::Operand::WRITE)
          (isKept && int(i) >= givenAmax(step.quantize_fp8()) ? given : others).insert(operand.slot());
    }
    for (plan::Step &step : *program.mutable_steps()) {
      bool isForThese = step.has_launch() && step.launch().accumulate() == plan::OVERWRITE;
      for (const plan::Operand &operand : step.operands())
        if (operand.access() != plan::Operand::READ)
          isForThese &= given.contains(operand.slot()) && !others.contains(operand.slot());
      if (isForThese)
        step.set_only_first_microstep(true);
    }
  }

  plan::Plan &plan;
  plan::Program &program;
  llvm::DenseMap<uint32_t, uint32_t> instead; ///< slots
  llvm::DenseSet<int> dropped;
};

} // namespace

Status keepCodes(plan::Plan &plan, llvm::ArrayRef<PlanShape> shapes, std::optional<uint64_t> budgetBytes) {
  const WeightCodes found = weightCodes(plan);
  llvm::SmallVector<WeightSteps> weights(found.begin(), found.end());
  if (weights.empty())
    return Status::ok();
  // Those that are used last in the forward first.
  llvm::sort(weights, [](const auto &a, const auto &b) { return a.second.front() > b.second.front(); });
  const auto keep = [&](plan::Plan &tried, size_t count) {
    CodeKeeper(tried).keep(llvm::ArrayRef(weights).take_front(count));
  };
  size_t count = weights.size();
  if (budgetBytes) {
    ZTC_ASSIGN_OR_RETURN(count, mostThatFit(plan, weights.size(), shapes, *budgetBytes, keep));
  }
  if (count)
    keep(plan, count);
  return Status::ok();
}

CodeLives codeLives(const plan::Plan &plan) {
  CodeLives lives;
  llvm::DenseSet<uint32_t> slots;
  const plan::Program *microstep = programOf(plan, "microstep");
  for (const auto &[place, steps] : weightCodes(plan)) {
    ++lives.weights;
    bool isKept = true;
    for (int i : steps) {
      const plan::Step &step = microstep->steps(i);
      isKept &= step.only_first_microstep();
      for (const plan::Operand &operand : step.operands())
        if (const plan::Slot &slot = plan.slots(int(operand.slot()));
            slot.kept() && operand.access() != plan::Operand::READ && slots.insert(operand.slot()).second)
          lives.keptBytes += slot.size().elements() * slot.size().element_bytes();
    }
    lives.kept += isKept;
  }
  return lives;
}

std::string describeCodes(const plan::Plan &plan) {
  const CodeLives lives = codeLives(plan);
  if (!lives.kept)
    return {};
  return "of " + std::to_string(lives.weights) + " weights in fp8 " + std::to_string(lives.kept) +
         " have codes that are kept to the backward and over micro-steps (" + formatSize(lives.keptBytes) + ")";
}

} // namespace ztc
