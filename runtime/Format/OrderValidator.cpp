#include "runtime/Format/OrderValidator.h"
#include "runtime/Format/HostLaunch.h"
#include "runtime/Format/Steps/StepDefinition.h"
#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <map>
#include <optional>
#include <set>

namespace ztc {

using namespace plan;

namespace {

/// Where an event was recorded.
struct Recorded {
  const Program *program;
  uint32_t stream;
  bool onlyLast, onlyFirst, unlessCarried;
};

constexpr uint32_t kStreams = 3, kMoves = 2;

/// Nothing touches what is on its way. Steps of a stream are numbered; what a stream knows of another is the number up
/// to which that one is done whenever a later step of its own begins: events carry it (a vector clock, as Mattern,
/// "Virtual Time and Global States of Distributed Systems", 1989).
class MoveChecker {
public:
  explicit MoveChecker(const Plan &plan) : plan_(plan) {}

  void begin(const Program &program) {
    hasMoves_ = std::ranges::any_of(program.steps(), [](const Step &step) { return step.has_move(); });
    given_ = {};
    known_ = {};
    events_.clear();
    uses_.clear();
    joined_ = 0;
  }

  Status check(const Step &step) {
    const uint32_t stream = step.stream();
    if (!hasMoves_)
      return Status::ok();
    if (step.has_record()) {
      events_[step.record().event()] = known_[stream];
      events_[step.record().event()][stream] = given_[stream];
      return Status::ok();
    }
    if (step.has_wait()) {
      if (const auto event = events_.find(step.wait().event()); event != events_.end())
        for (uint32_t other = 0; other < kStreams; ++other)
          known_[stream][other] = std::max(known_[stream][other], event->second[other]);
      return stream == 0 ? join(step) : Status::ok();
    }
    ++given_[stream];
    known_[stream][stream] = given_[stream]; // a stream is in order
    for (const Operand &operand : step.operands())
      ZTC_RETURN_IF_ERROR(use(step, operand));
    return Status::ok();
  }

  Status end() const { return joined_ == given_[kMoves] ? Status::ok() : dataLoss("it ends while something moves"); }

private:
  using Clock = std::array<uint64_t, kStreams>;
  /// The last read and write of a slot by each stream; 0: none.
  struct Uses {
    Clock read{}, written{};
  };

  /// A step meets every earlier one of another stream that touches a slot of its own, where one of both is a move and
  /// one of both writes. The first use of a slot by a move comes after all that was computed, and all that this has
  /// waited for: what had its bytes before is among it.
  Status use(const Step &step, const Operand &operand) {
    const bool writes = operand.access() != Operand::READ;
    const auto [place, isNew] = uses_.try_emplace(operand.slot());
    const bool isFirst = isNew && step.has_move() && plan_.slots(int(operand.slot())).space() == DEVICE;
    Uses &uses = place->second;
    const Clock &known = known_[step.stream()];
    for (uint32_t other = 0; other < kStreams; ++other) {
      if (other == step.stream() || (!step.has_move() && other != kMoves))
        continue;
      const bool isApart = uses.written[other] <= known[other] && (!writes || uses.read[other] <= known[other]) &&
                           (!isFirst || (other == 0 ? given_[0] : known_[0][other]) <= known[other]);
      if (!isApart)
        return dataLoss(fmt::format("slot {} '{}' is touched on stream {}, for which stream {} has not waited",
                                    operand.slot(), plan_.slots(int(operand.slot())).name(), other, step.stream()));
    }
    (writes ? uses.written : uses.read)[step.stream()] = given_[step.stream()];
    return Status::ok();
  }

  /// A wait of the computation names the slots that moved until then: they live until there.
  Status join(const Step &wait) {
    const uint64_t done = known_[0][kMoves];
    if (done <= joined_)
      return Status::ok();
    for (const auto &[slot, uses] : uses_) {
      const uint64_t last = std::max(uses.read[kMoves], uses.written[kMoves]);
      if (last <= joined_ || last > done || plan_.slots(int(slot)).space() != DEVICE)
        continue;
      const bool isNamed = std::ranges::any_of(
          wait.operands(), [slot = slot](const Operand &operand) { return operand.slot() == slot; });
      if (!isNamed)
        return dataLoss(
            fmt::format("it does not name slot {} '{}', which moved until then", slot, plan_.slots(int(slot)).name()));
    }
    joined_ = done;
    return Status::ok();
  }

  const Plan &plan_;
  bool hasMoves_ = false;               ///< the program; else nothing is asked
  Clock given_{};                       ///< steps of each stream so far
  std::array<Clock, kStreams> known_{}; ///< by stream: what it has waited for
  std::map<uint32_t, Clock> events_;    ///< what whoever waits for it knows
  std::map<uint32_t, Uses> uses_;       ///< by slot
  uint64_t joined_ = 0;                 ///< steps of that stream that the computation has waited for
};

class OrderChecker {
public:
  explicit OrderChecker(const Plan &plan) : plan_(plan) {}

  Status check() {
    for (const Program &program : plan_.programs()) {
      lastOrder_.reset();
      moves_.begin(program);
      madeOnce_.clear();
      madeAgain_.clear();
      for (int i = 0; i < program.steps_size(); ++i)
        if (Status status = checkStep(program, program.steps(i)); !status.isOk())
          return status.withContext(fmt::format("{} step {} '{}'", program.name(), i, program.steps(i).name()));
      ZTC_RETURN_IF_ERROR(moves_.end().withContext(program.name()));
      ZTC_RETURN_IF_ERROR(checkMadeOnce(program).withContext(program.name()));
    }
    for (int slot = 0; slot < plan_.slots_size(); ++slot)
      if (plan_.slots(slot).carried() && !carried_.contains(uint32_t(slot)))
        return dataLoss(fmt::format("slot {} '{}' is carried to the next step, and update does not gather it", slot,
                                    plan_.slots(slot).name()));
    return Status::ok();
  }

private:
  Status checkStep(const Program &program, const Step &step) {
    if (step.stream() >= kStreams)
      return dataLoss(fmt::format("stream {}, but there are three", step.stream()));
    if (const StepDefinition *definition = definitionOf(step);
        step.stream() == 1 && !(definition && definition->isCommunication()))
      return dataLoss("it computes on the stream of the collectives");
    if (step.stream() == 2 && !step.has_move() && !step.has_record() && !step.has_wait() && !computesOnHost(step))
      return dataLoss("it is not a move, on the stream of moves");
    if (step.only_last_microstep() && program.name() != "microstep")
      return dataLoss("a step of the last micro-step outside of microstep");
    ZTC_RETURN_IF_ERROR(checkCondition(program, step));
    if (step.owned_parameter() && (step.stream() != 0 || step.has_collective() || step.has_record() || step.has_wait()))
      return dataLoss("one rank alone communicates, or waits");
    if (step.owned_parameter() > uint32_t(plan_.parameters_size()) || (step.unless_owner() && !step.owned_parameter()))
      return dataLoss(fmt::format("a step of the owner of parameter {}, but there are {}",
                                  int64_t(step.owned_parameter()) - 1, plan_.parameters_size()));
    ZTC_RETURN_IF_ERROR(checkGather(program, step));
    if (step.has_collective()) {
      const uint64_t order = step.collective().launch_order();
      if (lastOrder_ && order <= *lastOrder_)
        return dataLoss(fmt::format("launch order {} after {}", order, *lastOrder_));
      lastOrder_ = order;
    }
    if (step.has_record()) {
      const uint32_t event = step.record().event();
      if (!recorded_
               .try_emplace(event, Recorded{&program, step.stream(), step.only_last_microstep(),
                                            step.only_first_microstep(), step.unless_carried()})
               .second)
        return dataLoss(fmt::format("event {} is recorded twice", event));
    }
    ZTC_RETURN_IF_ERROR(step.has_wait() ? checkWait(program, step) : Status::ok());
    return moves_.check(step);
  }

  /// What depends on the number of micro-steps computes: events and what is sent or moved are the same for any.
  static Status checkCondition(const Program &program, const Step &step) {
    if (!step.only_if_accumulating() && !step.unless_accumulating())
      return Status::ok();
    if (program.name() != "microstep")
      return dataLoss("a step that depends on the number of micro-steps, outside of microstep");
    if (step.only_if_accumulating() && step.unless_accumulating())
      return dataLoss("it is for one micro-step and for several: for no number of them");
    if (step.has_record() || step.has_wait() || step.has_collective() || step.has_move())
      return dataLoss("an event, or what is sent or moved, depends on the number of micro-steps");
    return Status::ok();
  }

  /// What is gathered once for several micro-steps, or by the update before, and where it lies.
  Status checkGather(const Program &program, const Step &step) {
    const bool isGather = step.has_collective() && step.collective().kind() == Collective::ALL_GATHER;
    const bool isOfSome = step.only_first_microstep() || step.unless_carried();
    if (isOfSome && (program.name() != "microstep" || step.only_last_microstep()))
      return dataLoss("a step of the first micro-step outside of it");
    // Codes of a weight, and the absolute maxima that give their scale.
    const bool isMade = step.only_first_microstep() && !step.unless_carried() && step.stream() == 0 &&
                        (step.has_quantize_fp8() || step.has_shard_fp8() ||
                         (step.has_launch() && step.launch().accumulate() == OVERWRITE));
    if (isOfSome && !isGather && !isMade && !step.has_record() && !step.has_wait())
      return dataLoss("only a gather and its events are left out of some micro-steps");
    if (!isGather && !step.has_wait())
      for (const Operand &operand : step.operands())
        if (operand.access() != Operand::READ)
          (isMade ? madeOnce_ : madeAgain_).insert(operand.slot());
    if (!isGather || step.operands_size() != 2)
      return Status::ok();
    const Slot &full = plan_.slots(int(step.operands(1).slot()));
    if (program.name() == "update" && full.carried())
      carried_.insert(step.operands(1).slot());
    if (program.name() != "microstep")
      return Status::ok();
    if (step.only_first_microstep() != full.kept())
      return dataLoss(fmt::format("slot '{}' is {}kept over micro-steps", full.name(), full.kept() ? "" : "not "));
    if (step.unless_carried() != full.carried())
      return dataLoss(
          fmt::format("slot '{}' is {}carried to the next step", full.name(), full.carried() ? "" : "not "));
    return Status::ok();
  }

  /// What only the first micro-step makes is kept where others read it, and nothing else writes it.
  Status checkMadeOnce(const Program &program) const {
    for (const Step &step : program.steps())
      for (const Operand &operand : step.operands()) {
        const Slot &slot = plan_.slots(int(operand.slot()));
        const bool isOnce = madeOnce_.contains(operand.slot());
        if (isOnce && madeAgain_.contains(operand.slot()))
          return dataLoss(
              fmt::format("slot '{}' is written in the first micro-step alone, and in others", slot.name()));
        if (isOnce && !step.only_first_microstep() && !slot.kept())
          return dataLoss(fmt::format("step '{}' uses slot '{}' in every micro-step: only the first one writes it, and "
                                      "it is not kept",
                                      step.name(), slot.name()));
        if (!isOnce && slot.kept() && slot.size().kind() != SizeForm::FULL)
          return dataLoss(fmt::format(
              "slot '{}' is kept over micro-steps, and no step of the first one alone writes it", slot.name()));
      }
    return Status::ok();
  }

  Status checkWait(const Program &program, const Step &step) const {
    const uint32_t event = step.wait().event();
    const auto found = recorded_.find(event);
    if (found == recorded_.end() || found->second.program != &program)
      return dataLoss(fmt::format("event {} is not recorded before it in its program", event));
    if (found->second.stream == step.stream())
      return dataLoss(fmt::format("stream {} waits for event {}, its own", step.stream(), event));
    if (found->second.stream != 0 && step.stream() != 0)
      return dataLoss(fmt::format("stream {} waits for stream {}: only that of the computation meets the others",
                                  step.stream(), found->second.stream));
    if (found->second.onlyLast && !step.only_last_microstep())
      return dataLoss(fmt::format("it waits in every micro-step for event {}, which only the last one records", event));
    if (found->second.onlyFirst != step.only_first_microstep() || found->second.unlessCarried != step.unless_carried())
      return dataLoss(fmt::format("it waits for event {} in other micro-steps than those that record it", event));
    return Status::ok();
  }

  const Plan &plan_;
  std::set<uint32_t> carried_; ///< slots that update gathers for the next step
  /// Slots of a program that steps of the first micro-step alone write, and those that others write.
  std::set<uint32_t> madeOnce_, madeAgain_;
  std::map<uint32_t, Recorded> recorded_;
  std::optional<uint64_t> lastOrder_;
  MoveChecker moves_{plan_};
};

} // namespace

Status validateOrder(const Plan &plan) {
  return OrderChecker(plan).check();
}

} // namespace ztc
