// `ztc memory` and the summary after `ztc compile`.
#include "compiler/Report/Report.h"
#include "runtime/Core/Sizes.h"
#include "runtime/Memory/Traffic.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <map>

using llvm::formatv;
using llvm::raw_ostream;

namespace ztc {

/// Host memory beside the arena: program text, oneDNN, thread stacks and staging; measured, not planned.
static constexpr uint64_t kHostBytes = 64ull << 20;

void printCompileSummary(raw_ostream &out, const plan::Plan &p, const MemoryPlan &memory, const std::string &file,
                         double seconds) {
  unsigned steps = 0;
  for (const plan::Program &program : p.programs())
    steps += program.steps_size();
  out << formatv("{0}: {1} parameters, {2} layers; micro-batch {3} x {4}, {5}, ZeRO-{6}\n", p.model().name(),
                 p.model().parameters(), p.model().layers(), p.model().batch(), p.model().seq(), p.precision(),
                 p.zero());
  out << formatv("arena {0} ({1} bytes):", formatSize(memory.arenaBytes), memory.arenaBytes);
  for (size_t c = 0; c < kMemoryClassCount; ++c)
    if (memory.byClass[c])
      out << formatv(" {0} {1},", kMemoryClassNames[c], formatSize(memory.byClass[c]));
  out << formatv(" peak in {0}\n", memory.peakProgram);
  out << formatv("{0}: {1} steps, {2} kernels, {3:F1} s\n", file, steps, p.kernels_size(), seconds);
}

namespace {

/// Slots that differ by their numbers only: one line for all layers.
struct SlotGroup {
  uint64_t bytes = 0;
  unsigned count = 0;
  int first = 0; ///< a slot of the group
};

/// The name with every number replaced by a star.
std::string withoutNumbers(llvm::StringRef name) {
  std::string pattern;
  for (char c : name)
    if (!llvm::isDigit(c))
      pattern += c;
    else if (pattern.empty() || pattern.back() != '*')
      pattern += '*';
  return pattern;
}

} // namespace

std::vector<std::string> explainPeak(const plan::Plan &p, const MemoryPlan &memory) {
  std::map<std::pair<std::string, std::string>, SlotGroup> groups;
  for (uint32_t slot : memory.liveAtPeak) {
    const plan::Slot &record = p.slots(int(slot));
    SlotGroup &group = groups[{withoutNumbers(record.name()), withoutNumbers(record.reason())}];
    if (group.count++ == 0)
      group.first = int(slot);
    group.bytes += memory.slots[slot].bytes;
  }
  std::vector<std::pair<std::string, SlotGroup>> sorted;
  for (const auto &[key, group] : groups)
    sorted.emplace_back(key.first, group);
  llvm::sort(sorted, [](const auto &a, const auto &b) {
    return std::make_pair(b.second.bytes, a.second.first) < std::make_pair(a.second.bytes, b.second.first);
  });
  std::vector<std::string> lines;
  for (const auto &[pattern, group] : sorted) {
    const plan::Slot &slot = p.slots(group.first);
    std::string name = group.count == 1 ? slot.name() : std::to_string(group.count) + " x " + pattern;
    lines.push_back(formatv("{0,16}  {1,-13} {2}{3}", group.bytes,
                            kMemoryClassNames[std::max(0, int(slot.slot_class()) - 1)], name,
                            slot.reason().empty() ? "" : ": " + slot.reason()));
  }
  if (memory.byClass.back())
    lines.push_back(formatv("{0,16}  {1,-13} gaps that the packing leaves at the peak", memory.byClass.back(),
                            kMemoryClassNames.back()));
  return lines;
}

void MemoryTable::add(const plan::Plan &p, const PlanShape &shape, unsigned stage, const MemoryPlan &memory,
                      uint64_t reserveBytes, int64_t recomputeFlops, bool explain) {
  Row row{shape,          stage, memory, reserveBytes, kHostBytes, sentBytes(p, shape).parametersAndGradients(),
          recomputeFlops, {}};
  if (explain)
    row.explanation = explainPeak(p, memory);
  rows.push_back(std::move(row));
}

/// Three digits are enough to compare; the exact peak stands beside them.
static std::string shortSize(uint64_t bytes) {
  return bytes ? formatSize(bytes) : "-";
}

void MemoryTable::printText(raw_ostream &out) const {
  out << " zero  gpus    M        peak bytes      peak";
  for (const char *name : kMemoryClassNames)
    out << formatv(" {0,13}", name);
  out << "   sent/step" << (budgetBytes ? "   --mem=" + formatSize(budgetBytes) : "") << "\n";
  for (const Row &row : rows) {
    out << formatv("{0,5} {1,5} {2,4} {3,17} {4,9}", row.stage, row.shape.world, row.shape.accumulate,
                   row.memory.arenaBytes, shortSize(row.memory.arenaBytes));
    for (uint64_t bytes : row.memory.byClass)
      out << formatv(" {0,13}", shortSize(bytes));
    out << formatv(" {0,11}", shortSize(row.sentBytes));
    uint64_t needed = row.memory.arenaBytes + row.reserveBytes;
    if (budgetBytes)
      out << (needed <= budgetBytes ? "   fits, " + formatSize(budgetBytes - needed) + " left"
                                    : "   " + std::to_string(needed - budgetBytes) + " bytes too much");
    out << "\n";
    for (const std::string &line : row.explanation)
      out << line << "\n";
  }
  out << "per rank. The arena is one allocation of `peak bytes`, the classes are what it holds "
         "at the peak\n";
  if (!rows.empty() && rows.front().reserveBytes)
    out << "beside it --reserve=" << formatSize(rows.front().reserveBytes) << "\n";
}

void MemoryTable::printJson(raw_ostream &out) const {
  llvm::json::OStream json(out);
  json.object([&] {
    json.attributeArray("rows", [&] {
      for (const Row &row : rows)
        json.object([&] {
          json.attribute("gpus", int64_t(row.shape.world));
          json.attribute("zero", int64_t(row.stage));
          json.attribute("accumulate", int64_t(row.shape.accumulate));
          json.attribute("threads", int64_t(row.shape.threads));
          json.attribute("peak_bytes", int64_t(row.memory.arenaBytes));
          json.attribute("largest_live_bytes", int64_t(row.memory.largestLiveBytes));
          json.attribute("peak_program", row.memory.peakProgram);
          json.attribute("reserved_bytes", int64_t(row.reserveBytes));
          json.attribute("host_bytes", int64_t(row.hostBytes));
          if (budgetBytes) {
            json.attribute("budget_bytes", int64_t(budgetBytes));
            json.attribute("fits", row.memory.arenaBytes + row.reserveBytes <= budgetBytes);
          }
          json.attributeObject("by_class", [&] {
            for (size_t c = 0; c < kMemoryClassCount; ++c)
              json.attribute(kMemoryClassNames[c], int64_t(row.memory.byClass[c]));
          });
          json.attribute("recompute_flops", row.recomputeFlops);
          json.attribute("sent_bytes", int64_t(row.sentBytes));
        });
    });
  });
  out << "\n";
}

} // namespace ztc
