// `ztc memory` and the summary after `ztc compile`.
#include "compiler/Report/Report.h"
#include "runtime/Core/Sizes.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>

using llvm::formatv;
using llvm::raw_ostream;

namespace ztc {

/// Elements sent per rank and optimizer step times (W-1)/W, in bytes (DESIGN: the command line, last paragraph).
static uint64_t sentBytes(const plan::Plan &p, const PlanShape &shape, unsigned stage) {
  uint64_t elements = 0;
  for (const plan::Bucket &bucket : p.buckets())
    if (bucket.trainable())
      elements += bucket.elements();
  uint64_t times = stage <= 1 ? 2 : stage == 2 ? shape.accumulate + 1 : 3 * shape.accumulate;
  return elements * times * 4 / shape.world * (shape.world - 1);
}

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

std::vector<std::string> explainPeak(const plan::Plan &p, const MemoryPlan &memory) {
  // Live at the peak: persistent slots, and those whose first and last use in the peak's program enclose it.
  std::vector<std::pair<uint64_t, int>> live;
  for (int i = 0; i < p.slots_size(); ++i) {
    bool alive = p.slots(i).persistent();
    int first = -1, last = -1, at = 0;
    for (const plan::Program &program : p.programs()) {
      for (const plan::Step &step : program.steps()) {
        for (const plan::Operand &operand : step.operands())
          if (int(operand.slot()) == i) {
            bool joined = program.name() == memory.peakProgram ||
                          ((memory.peakProgram == "microstep" || memory.peakProgram == "update") &&
                           (program.name() == "microstep" || program.name() == "update"));
            if (joined) {
              first = first < 0 ? at : first;
              last = at;
            }
          }
        ++at;
      }
    }
    int peak = 0;
    for (const plan::Program &program : p.programs()) {
      if (program.name() == memory.peakProgram) {
        peak += memory.peakStep;
        break;
      }
      peak += program.steps_size();
    }
    alive |= first >= 0 && first <= peak && peak <= last;
    if (alive && memory.slots[i].bytes)
      live.emplace_back(memory.slots[i].bytes, i);
  }
  std::stable_sort(live.begin(), live.end(), [](const auto &a, const auto &b) { return a.first > b.first; });
  std::vector<std::string> lines;
  for (const auto &[bytes, i] : live)
    lines.push_back(formatv("{0,16}  {1,-12} {2}{3}{4}", bytes,
                            kMemoryClassNames[std::max(0, int(p.slots(i).slot_class()) - 1)], p.slots(i).name(),
                            p.slots(i).layer() >= 0 ? " (layer " + std::to_string(p.slots(i).layer()) + ")" : "",
                            p.slots(i).reason().empty() ? "" : ": " + p.slots(i).reason()));
  return lines;
}

void MemoryTable::add(const plan::Plan &p, const PlanShape &shape, unsigned stage, const MemoryPlan &memory,
                      uint64_t reserveBytes, bool explain) {
  Row row{shape, stage, memory, reserveBytes, kHostBytes, sentBytes(p, shape, stage), {}};
  if (explain)
    row.explanation = explainPeak(p, memory);
  rows.push_back(std::move(row));
}

void MemoryTable::printText(raw_ostream &out) const {
  out << "gpus zero accumulate             peak";
  for (const char *name : kMemoryClassNames)
    out << formatv(" {0,14}", name);
  out << "   sent/step\n";
  for (const Row &row : rows) {
    out << formatv("{0,4} {1,4} {2,10} {3,16}", row.shape.world, row.stage, row.shape.accumulate,
                   row.memory.arenaBytes);
    for (uint64_t bytes : row.memory.byClass)
      out << formatv(" {0,14}", bytes);
    out << formatv(" {0,11}\n", row.sentBytes);
    for (const std::string &line : row.explanation)
      out << line << "\n";
  }
  out << "bytes per rank; the arena is one allocation of `peak` bytes\n";
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
          json.attribute("reserved_bytes", int64_t(row.reserveBytes));
          json.attribute("host_bytes", int64_t(row.hostBytes));
          json.attributeObject("by_class", [&] {
            for (size_t c = 0; c < kMemoryClassCount; ++c)
              json.attribute(kMemoryClassNames[c], int64_t(row.memory.byClass[c]));
          });
          json.attribute("recompute_flops", int64_t(0));
          json.attribute("sent_bytes", int64_t(row.sentBytes));
        });
    });
  });
  out << "\n";
}

} // namespace ztc
