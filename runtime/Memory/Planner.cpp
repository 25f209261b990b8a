#include "runtime/Memory/Planner.h"
#include "runtime/Core/Sizes.h"
#include "runtime/Format/PlanValidator.h"
#include "runtime/Format/StepRuns.h"
#include "runtime/Memory/ArenaSize.h"
#include "runtime/Memory/DiskStaging.h"
#include "runtime/Memory/MemoryTimeline.h"
#include <algorithm>
#include <fmt/format.h>
#include <limits>

namespace ztc {

const std::array<const char *, kMemoryClassCount> kMemoryClassNames = {
    "parameters", "gathered",      "gradients", "optimizer", "activations",
    "workspace",  "communication", "io",        "cache",     "unused"};

std::string shapeText(const PlanShape &shape) {
  const std::string steps =
      fmt::format("{} rank{}, {} micro-step{} a step and ", shape.world, shape.world == 1 ? "" : "s", shape.accumulate,
                  shape.accumulate == 1 ? "" : "s");
  if (!shape.threads)
    return steps + (shape.world == 1 ? "a GPU" : "a GPU each");
  return steps + fmt::format("{} thread{}", shape.threads, shape.threads == 1 ? "" : "s");
}

/// Bytes, or nothing on overflow.
static std::optional<uint64_t> alignedBytes(const plan::SizeForm &size, const PlanShape &shape) {
  const std::optional<uint64_t> bytes = sizeFormBytes(size, shape.world, shape.accumulate > 1, shape.threads);
  return bytes ? std::optional(roundUp(*bytes, kArenaAlignment)) : std::nullopt;
}

uint64_t sizeBytes(const plan::SizeForm &size, const PlanShape &shape) {
  return alignedBytes(size, shape).value_or(0);
}

namespace {

/// The slot whose storage a slot is: another one's where a bucket is gathered and there is nobody to gather from, or
/// where it lies in an accumulator; else its own.
uint32_t storageOf(const plan::Plan &plan, const PlanShape &shape, uint32_t slot) {
  if (slot >= static_cast<uint32_t>(plan.slots_size()))
    return slot;
  const plan::Slot &record = plan.slots(static_cast<int>(slot));
  if (record.same_as_at_one_rank() != 0 && shape.world == 1)
    return record.same_as_at_one_rank() - 1;
  if (record.same_as_if_accumulating() != 0 && shape.accumulate > 1)
    return record.same_as_if_accumulating() - 1;
  return slot;
}

/// First and last moment (inclusive) of a use.
struct Span {
  uint32_t first = std::numeric_limits<uint32_t>::max();
  uint32_t last = 0;
  bool isUsed() const { return first <= last; }
  void add(uint32_t moment) {
    first = std::min(first, moment);
    last = std::max(last, moment);
  }
};

/// The programs laid end to end. A moment is one step; microstep and update form one stretch, every other program its
/// own.
class Timeline {
public:
  explicit Timeline(const plan::Plan &plan) : plan_(plan) {
    for (const plan::Program &program : plan.programs()) {
      begins_.push_back(length_);
      length_ += static_cast<uint32_t>(std::max(1, program.steps_size()));
    }
  }

  uint32_t length() const { return std::max(length_, 1u); }

  /// The lifetimes of all slots: intervals by slot, in time order, none overlapping another of its slot.
  /// A slot whose storage serves others has their uses too, and these have none.
  std::vector<std::vector<Interval>> lifetimes(const PlanShape &shape) const {
    const auto slots = static_cast<size_t>(plan_.slots_size());
    std::vector<std::vector<Interval>> intervals(slots);
    std::vector<Span> stepped(slots), updated(slots), kept(slots); // by microstep, by update, of caches
    uint32_t trainingBegin = 0, microstepEnd = 0;
    for (int p = 0; p < plan_.programs_size(); ++p) {
      const std::string &name = plan_.programs(p).name();
      if (name == "microstep") {
        trainingBegin = begins_[static_cast<size_t>(p)];
        microstepEnd = endOf(p);
      }
      if (name == "microstep" || name == "update") {
        addUses(p, shape, name == "update" ? updated : stepped);
        continue;
      }
      std::vector<Span> own(slots);
      addUses(p, shape, own);
      for (size_t slot = 0; slot < slots; ++slot)
        if (plan_.slots(static_cast<int>(slot)).slot_class() == plan::CACHE && own[slot].isUsed()) {
          // From the first program that uses it to the end of the last. One that reads it first goes on with what is
          // there when it begins.
          kept[slot].add(isFirstWritten(p, slot, shape) ? own[slot].first : begins_[static_cast<size_t>(p)]);
          kept[slot].add(endOf(p));
          own[slot] = {};
        }
      for (size_t slot = 0; slot < slots; ++slot)
        if (own[slot].isUsed())
          intervals[slot].push_back({own[slot].first, own[slot].last});
    }
    for (size_t slot = 0; slot < slots; ++slot) {
      const plan::Slot &record = plan_.slots(static_cast<int>(slot));
      if (record.persistent()) {
        intervals[slot] = {{0, length() - 1}};
        continue;
      }
      Span training = stepped[slot];
      for (uint32_t moment : {updated[slot].first, updated[slot].last})
        if (updated[slot].isUsed())
          training.add(moment);
      if (kept[slot].isUsed()) {
        for (uint32_t moment : {training.first, training.last})
          if (training.isUsed())
            kept[slot].add(moment);
        intervals[slot] = {{kept[slot].first, kept[slot].last}};
        continue;
      }
      if (!training.isUsed())
        continue;
      const bool isKept = record.kept() && shape.accumulate > 1;
      if (record.carried() && updated[slot].isUsed() && stepped[slot].isUsed() &&
          stepped[slot].last < updated[slot].first) {
        // What update gathers is there from then on, through all programs, until the next micro-step has used it.
        intervals[slot] = {{trainingBegin, isKept ? microstepEnd : stepped[slot].last},
                           {updated[slot].first, length() - 1}};
        continue;
      }
      if (isKept)
        training.add(microstepEnd);
      const bool fromStart = isKept || (record.accumulator() && shape.accumulate > 1);
      intervals[slot].insert(intervals[slot].begin(),
                             {fromStart ? std::min(trainingBegin, training.first) : training.first, training.last});
      std::sort(intervals[slot].begin(), intervals[slot].end(),
                [](const Interval &a, const Interval &b) { return a.first < b.first; });
    }
    return intervals;
  }

  /// Program, by its index, and step of a moment.
  std::pair<uint32_t, uint32_t> indexOf(uint32_t moment) const {
    for (size_t p = begins_.size(); p-- > 0;)
      if (begins_[p] <= moment)
        return {static_cast<uint32_t>(p), moment - begins_[p]};
    return {0, 0};
  }

  /// The same by the program's name.
  std::pair<std::string, uint32_t> place(uint32_t moment) const {
    for (size_t p = begins_.size(); p-- > 0;)
      if (begins_[p] <= moment)
        return {plan_.programs(static_cast<int>(p)).name(), moment - begins_[p]};
    return {"", 0};
  }

private:
  void addUses(int program, const PlanShape &shape, std::vector<Span> &spans) const {
    const plan::Program &record = plan_.programs(program);
    for (int s = 0; s < record.steps_size(); ++s) {
      if (!runsAtAll(record.steps(s), shape.accumulate))
        continue;
      for (const plan::Operand &operand : record.steps(s).operands())
        if (const uint32_t slot = storageOf(plan_, shape, operand.slot()); slot < spans.size())
          spans[slot].add(begins_[static_cast<size_t>(program)] + static_cast<uint32_t>(s));
    }
  }

  /// The last moment of a program.
  uint32_t endOf(int program) const {
    return begins_[static_cast<size_t>(program)] +
           static_cast<uint32_t>(std::max(1, plan_.programs(program).steps_size())) - 1;
  }

  /// Whether the first step of a program that uses a slot reads nothing of it.
  bool isFirstWritten(int program, size_t slot, const PlanShape &shape) const {
    for (const plan::Step &step : plan_.programs(program).steps()) {
      bool isUsed = false, isRead = false;
      for (const plan::Operand &operand : step.operands())
        if (storageOf(plan_, shape, operand.slot()) == slot) {
          isUsed = true;
          isRead = isRead || operand.access() != plan::Operand::WRITE;
        }
      if (isUsed)
        return !isRead;
    }
    return true;
  }

  const plan::Plan &plan_;
  std::vector<uint32_t> begins_;
  uint32_t length_ = 0;
};

} // namespace

/// The moment with the most live bytes, the earliest of equals.
static std::pair<uint32_t, uint64_t> largestMoment(const std::vector<PackItem> &items, uint32_t length) {
  std::vector<int64_t> change(static_cast<size_t>(length) + 1, 0);
  for (const PackItem &item : items)
    for (const Interval &interval : item.lifetime) {
      change[interval.first] += static_cast<int64_t>(item.bytes);
      change[static_cast<size_t>(interval.last) + 1] -= static_cast<int64_t>(item.bytes);
    }
  std::pair<uint32_t, uint64_t> best{0, 0};
  int64_t live = 0;
  for (uint32_t moment = 0; moment < length; ++moment) {
    live += change[moment];
    if (static_cast<uint64_t>(live) > best.second)
      best = {moment, static_cast<uint64_t>(live)};
  }
  return best;
}

namespace {
/// What there is to lay out in the arena of the device, and the timeline that it lives on.
struct DevicePieces {
  std::vector<PackItem> items;
  std::vector<uint32_t> slots; ///< by item
  uint32_t length = 0;         ///< in moments
};
} // namespace

/// The pieces of the device; what lies in the spaces below is placed in `memory`.
static StatusOr<DevicePieces> collectPieces(const plan::Plan &plan, const PlanShape &shape, MemoryPlan &memory) {
  if (shape.world == 0 || shape.accumulate == 0)
    return invalidArgument(
        fmt::format("a plan of memory for {} ranks and {} micro-steps", shape.world, shape.accumulate));
  const Timeline timeline(plan);
  std::vector<std::vector<Interval>> lifetimes = timeline.lifetimes(shape);
  DevicePieces pieces;
  pieces.length = timeline.length();
  memory.slots.resize(static_cast<size_t>(plan.slots_size()));
  const bool hasDisk = std::ranges::any_of(plan.slots(), [](const plan::Slot &s) { return s.space() == plan::DISK; });
  const uint64_t alignment = hasDisk ? kDirectMemoryAlignment : kArenaAlignment;
  uint64_t total = 0;
  for (uint32_t slot = 0; slot < lifetimes.size(); ++slot) {
    const plan::Slot &record = plan.slots(static_cast<int>(slot));
    const std::optional<uint64_t> bytes = alignedBytes(record.size(), shape);
    if (record.same_as_at_one_rank() > lifetimes.size() || record.same_as_if_accumulating() > lifetimes.size())
      return invalidArgument(fmt::format("slot {} '{}' shares a slot that does not exist", slot, record.name()));
    if (!bytes || __builtin_add_overflow(total, *bytes, &total) || total > (uint64_t(1) << 62))
      return invalidArgument(fmt::format("the size of slot {} '{}' overflows with {} ranks and {} threads", slot,
                                         record.name(), shape.world, shape.threads));
    if (lifetimes[slot].empty() || *bytes == 0 || storageOf(plan, shape, slot) != slot)
      continue;
    if (record.space() != plan::DEVICE) {
      // Always there: one after the other.
      const bool isDisk = record.space() == plan::DISK;
      LowerSpacePlan &space = isDisk ? memory.disk : memory.host;
      memory.slots[slot] = {space.bytes, roundUp(*bytes, isDisk ? kDiskAlignment : kArenaAlignment)};
      space.bytes += memory.slots[slot].bytes;
      if (record.slot_class() >= 1 && record.slot_class() < static_cast<int>(kMemoryClassCount))
        space.byClass[static_cast<size_t>(record.slot_class() - 1)] += memory.slots[slot].bytes;
      continue;
    }
    pieces.items.push_back({roundUp(*bytes, alignment), std::move(lifetimes[slot])});
    pieces.slots.push_back(slot);
  }
  return pieces;
}

/// Places the slots whose storage is another one's.
static void placeShared(const plan::Plan &plan, const PlanShape &shape, MemoryPlan &memory) {
  for (uint32_t slot = 0; slot < memory.slots.size(); ++slot)
    if (const uint32_t storage = storageOf(plan, shape, slot); storage != slot) {
      const uint64_t bytes =
          std::min(sizeBytes(plan.slots(static_cast<int>(slot)).size(), shape), memory.slots[storage].bytes);
      memory.slots[slot] = {bytes ? memory.slots[storage].offset : 0, bytes};
    }
}

StatusOr<MemoryPlan> slotSizes(const plan::Plan &plan, const PlanShape &shape) {
  MemoryPlan memory;
  ZTC_ASSIGN_OR_RETURN(const DevicePieces pieces, collectPieces(plan, shape, memory));
  for (size_t i = 0; i < pieces.items.size(); ++i)
    memory.slots[pieces.slots[i]].bytes = pieces.items[i].bytes;
  placeShared(plan, shape, memory);
  return memory;
}

uint64_t persistentBytes(const plan::Plan &plan, const PlanShape &shape) {
  uint64_t bytes = 0;
  for (uint32_t slot = 0; slot < static_cast<uint32_t>(plan.slots_size()); ++slot)
    if (const plan::Slot &record = plan.slots(static_cast<int>(slot));
        record.persistent() && record.space() == plan::DEVICE && storageOf(plan, shape, slot) == slot)
      bytes += sizeBytes(record.size(), shape);
  return bytes;
}

StatusOr<MemoryPlan> planMemory(const plan::Plan &plan, const PlanShape &shape) {
  MemoryPlan memory;
  ZTC_ASSIGN_OR_RETURN(const DevicePieces pieces, collectPieces(plan, shape, memory));
  const std::vector<PackItem> &items = pieces.items;
  if (memory.disk.bytes && shape.threads == 0) {
    const uint64_t before = memory.host.bytes;
    memory.host.bytes = roundUp(before, kDiskAlignment) + std::min(memory.disk.bytes, kDiskStagingBytes);
    memory.host.byClass[static_cast<size_t>(plan::IO - 1)] += memory.host.bytes - before;
  }

  const Packing packing = pack(items, pieces.length);
  memory.arenaBytes = packing.bytes;
  for (size_t i = 0; i < items.size(); ++i)
    memory.slots[pieces.slots[i]] = {packing.offsets[i], items[i].bytes};
  placeShared(plan, shape, memory);

  const auto [peak, live] = largestMoment(items, pieces.length);
  memory.largestLiveBytes = live;
  std::tie(memory.peakProgram, memory.peakStep) = Timeline(plan).place(peak);
  uint64_t counted = 0;
  for (size_t i = 0; i < items.size(); ++i)
    for (const Interval &interval : items[i].lifetime)
      if (interval.first <= peak && peak <= interval.last) {
        memory.liveAtPeak.push_back(pieces.slots[i]);
        const int slotClass = plan.slots(static_cast<int>(pieces.slots[i])).slot_class();
        if (slotClass >= 1 && slotClass < static_cast<int>(kMemoryClassCount)) {
          memory.byClass[static_cast<size_t>(slotClass - 1)] += items[i].bytes;
          counted += items[i].bytes;
        }
      }
  memory.byClass.back() = memory.arenaBytes - counted;
  return memory;
}

StatusOr<ArenaSize> ArenaSize::of(const plan::Plan &plan, const PlanShape &shape) {
  MemoryPlan below;
  ZTC_ASSIGN_OR_RETURN(DevicePieces pieces, collectPieces(plan, shape, below));
  ArenaSize size;
  size.items_ = std::move(pieces.items);
  size.length_ = pieces.length;
  return size;
}

uint64_t ArenaSize::largestLiveBytes() const {
  return largestMoment(items_, length_).second;
}

uint64_t ArenaSize::bytes(uint64_t enough) const {
  return pack(items_, length_, enough).bytes;
}

MemoryTimeline memoryTimeline(const plan::Plan &plan, const PlanShape &shape, const MemoryPlan &memory) {
  const Timeline timeline(plan);
  const std::vector<std::vector<Interval>> lifetimes = timeline.lifetimes(shape);
  MemoryTimeline found;
  found.moments.resize(timeline.length());
  for (uint32_t moment = 0; moment < timeline.length(); ++moment)
    if (const auto [program, step] = timeline.place(moment); step == 0)
      found.programs.push_back({program, moment});
  for (uint32_t slot = 0; slot < lifetimes.size(); ++slot) {
    const int slotClass = plan.slots(static_cast<int>(slot)).slot_class();
    if (slotClass < 1 || slotClass >= static_cast<int>(kMemoryClassCount) || storageOf(plan, shape, slot) != slot ||
        plan.slots(static_cast<int>(slot)).space() != plan::DEVICE)
      continue;
    for (const Interval &interval : lifetimes[slot])
      for (uint32_t moment = interval.first; moment <= interval.last; ++moment)
        found.moments[moment].byClass[static_cast<size_t>(slotClass - 1)] += memory.slots[slot].bytes;
  }
  return found;
}

std::vector<SlotEnd> slotEnds(const plan::Plan &plan, const PlanShape &shape) {
  const Timeline timeline(plan);
  const std::vector<std::vector<Interval>> lifetimes = timeline.lifetimes(shape);
  std::vector<SlotEnd> ends;
  for (uint32_t slot = 0; slot < lifetimes.size(); ++slot) {
    if (plan.slots(static_cast<int>(slot)).persistent() || storageOf(plan, shape, slot) != slot)
      continue;
    // What a kept or carried slot holds at the end of a program is read by the one that follows.
    const plan::Slot &record = plan.slots(static_cast<int>(slot));
    for (const Interval &interval : lifetimes[slot]) {
      const auto [program, step] = timeline.indexOf(interval.last);
      const bool isLastStep = step + 1 >= static_cast<uint32_t>(plan.programs(static_cast<int>(program)).steps_size());
      if (isLastStep && ((record.kept() && shape.accumulate > 1) || record.carried()))
        continue;
      ends.push_back({slot, program, step});
    }
  }
  return ends;
}

} // namespace ztc
