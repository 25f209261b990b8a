// `ztc diff`: what changed between two plans in memory, time and traffic, by block.
#include "compiler/Report/Report.h"
#include "runtime/Core/Sizes.h"
#include "runtime/Format/StepText.h"
#include "runtime/Memory/Traffic.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <utility>

using llvm::formatv;
using llvm::raw_ostream;

namespace ztc::report {
namespace {

/// What one block takes; -1: what lies in no block.
struct LayerUse {
  uint64_t peakBytes = 0; ///< at the peak of the whole
  double seconds = 0;     ///< of an optimizer step
  uint64_t flops = 0;     ///< the same
  bool operator==(const LayerUse &) const = default;
};

struct Side {
  Side(const LoadedPlan &loaded, const PlanShape &shape, const MemoryPlan &memory)
      : plan(loaded.plan), shape(shape), memory(memory) {
    MachineRates rates = ratesOf(shape);
    seconds = planSeconds(plan, memory, shape, rates);
    sent = sentBytes(plan, shape);
    for (uint32_t slot : memory.liveAtPeak)
      layers[plan.slots(int(slot)).layer()].peakBytes += memory.slots[slot].bytes;
    layers[-1].peakBytes += memory.byClass.back(); // gaps
    forEachTrainingStep(plan, shape, [&](const plan::Step &step, unsigned times, bool) {
      if (step.has_collective())
        return;
      LayerUse &use = layers[step.layer()];
      use.seconds += times * stepSeconds(plan, memory, shape, step, rates);
      use.flops += times * step.flops();
    });
  }

  const plan::Plan &plan;
  const PlanShape &shape;
  const MemoryPlan &memory;
  std::map<int64_t, LayerUse> layers;
  double seconds = 0;
  SentBytes sent;
};

std::string change(const std::string &a, const std::string &b) {
  return a == b ? a : a + " -> " + b;
}
std::string milliseconds(double seconds) {
  return formatv("{0:F3} ms", seconds * 1e3);
}

void printOptions(raw_ostream &out, const plan::Plan &a, const plan::Plan &b) {
  std::set<std::string> names;
  for (const plan::Plan *side : {&a, &b})
    for (const auto &[name, value] : side->options())
      names.insert(name);
  auto option = [](const plan::Plan &p, const std::string &name) {
    auto found = p.options().find(name);
    return found == p.options().end() ? std::string("(absent)") : found->second;
  };
  for (const std::string &name : names)
    if (option(a, name) != option(b, name))
      out << formatv("option {0}: {1} -> {2}\n", name, option(a, name), option(b, name));
}

void printMemory(raw_ostream &out, const MemoryPlan &a, const MemoryPlan &b) {
  out << formatv("memory at the peak: {0} -> {1} bytes ({2})\n", a.arenaBytes, b.arenaBytes,
                 change(formatSize(a.arenaBytes), formatSize(b.arenaBytes)));
  for (size_t c = 0; c < kMemoryClassCount; ++c)
    if (a.byClass[c] != b.byClass[c])
      out << formatv("  {0}: {1} -> {2}\n", kMemoryClassNames[c], a.byClass[c], b.byClass[c]);
}

void printTraffic(raw_ostream &out, const Side &a, const Side &b) {
  auto line = [&](const char *what, uint64_t one, uint64_t two) {
    if (one != two)
      out << formatv("  {0}: {1} -> {2} bytes\n", what, one, two);
  };
  out << formatv("sent per optimizer step: {0} -> {1} bytes\n", a.sent.parametersAndGradients(),
                 b.sent.parametersAndGradients());
  line("gathered parameters", a.sent.allGather, b.sent.allGather);
  line("reduced gradients", a.sent.reduceScatter, b.sent.reduceScatter);
  line("scalars", a.sent.allReduce, b.sent.allReduce);
}

/// Blocks that change alike are one line.
void printLayers(raw_ostream &out, const Side &a, const Side &b) {
  using Change = std::pair<LayerUse, LayerUse>;
  std::vector<std::pair<Change, std::set<int64_t>>> changes;
  std::set<int64_t> layers;
  for (const Side *side : {&a, &b})
    for (const auto &[layer, use] : side->layers)
      layers.insert(layer);
  auto find = [](const Side &side, int64_t layer) {
    auto found = side.layers.find(layer);
    return found == side.layers.end() ? LayerUse() : found->second;
  };
  for (int64_t layer : layers) {
    Change change{find(a, layer), find(b, layer)};
    auto same = llvm::find_if(changes, [&](const auto &entry) { return entry.first == change; });
    if (same == changes.end())
      same = changes.insert(changes.end(), {change, {}});
    same->second.insert(layer);
  }
  const char *heading = "by block, each:\n";
  for (const auto &[change, where] : changes) {
    const auto &[one, two] = change;
    if (one == two)
      continue;
    out << std::exchange(heading, "");
    std::string which = "in no block";
    if (*where.begin() >= 0)
      which = (where.size() == 1 ? "block " : "blocks ") + layersText(where);
    out << formatv("  {0}: at the peak {1} -> {2} bytes; {3} -> {4}", which, one.peakBytes, two.peakBytes,
                   milliseconds(one.seconds), milliseconds(two.seconds));
    if (one.flops != two.flops)
      out << formatv("; {0} -> {1} flops", one.flops, two.flops);
    out << "\n";
  }
}

/// How many of a plan's entries of one kind differ, in their order: what no number above shows.
template <typename Entries> void printOther(raw_ostream &out, const char *what, const Entries &a, const Entries &b) {
  int differing = std::abs(a.size() - b.size());
  for (int i = 0; i < std::min(a.size(), b.size()); ++i)
    differing += a[i].SerializeAsString() != b[i].SerializeAsString();
  if (differing)
    out << formatv("{0}: {1} of {2} differ\n", what, differing, std::max(a.size(), b.size()));
}

/// The steps of a program as lines, counted; those of all blocks as one.
std::map<std::string, int> linesOf(const plan::Plan &p, const std::string &program) {
  std::map<std::string, int> lines;
  for (const plan::Program &candidate : p.programs())
    if (candidate.name() == program)
      for (const plan::Step &step : candidate.steps()) {
        // "layer 3 mlp.gate_proj matmul 2": equal labels of a block are numbered.
        llvm::StringRef name = step.name();
        if (step.layer() >= 0)
          name =
              name.drop_while([](char c) { return c != ' '; }).drop_front().drop_while([](char c) { return c != ' '; });
        name = name.rtrim("0123456789").rtrim();
        ++lines[(step.layer() >= 0 ? "blocks: " : "") + name.trim().str() + ": " + stepCallText(p, step)];
      }
  return lines;
}

void printSteps(raw_ostream &out, const plan::Plan &a, const plan::Plan &b) {
  std::set<std::string> programs;
  for (const plan::Plan *side : {&a, &b})
    for (const plan::Program &program : side->programs())
      programs.insert(program.name());
  for (const std::string &program : programs) {
    std::map<std::string, int> left = linesOf(a, program), right = linesOf(b, program);
    for (const auto &[line, count] : left)
      if (int gone = count - (right.count(line) ? right[line] : 0); gone > 0)
        out << formatv("{0} - {1} x {2}\n", program, gone, line);
    for (const auto &[line, count] : right)
      if (int added = count - (left.count(line) ? left[line] : 0); added > 0)
        out << formatv("{0} + {1} x {2}\n", program, added, line);
  }
}

} // namespace

StatusOr<bool> printPlanDiff(raw_ostream &out, const LoadedPlan &a, const LoadedPlan &b, const PlanShape &shape) {
  if (a.sha256 == b.sha256) {
    out << "the plans are equal\n";
    return false;
  }
  StatusOr<MemoryPlan> memoryA = planMemory(a.plan, shape), memoryB = planMemory(b.plan, shape);
  if (!memoryA.isOk())
    return memoryA.status();
  if (!memoryB.isOk())
    return memoryB.status();
  printOptions(out, a.plan, b.plan);
  Side one(a, shape, *memoryA), two(b, shape, *memoryB);
  out << formatv("per rank, with {0}:\n", shapeText(shape));
  printMemory(out, *memoryA, *memoryB);
  out << formatv("time of a step by the cost model: {0} -> {1}\n", milliseconds(one.seconds),
                 milliseconds(two.seconds));
  printTraffic(out, one, two);
  printLayers(out, one, two);
  printSteps(out, a.plan, b.plan);
  printOther(out, "parameters, with their sources", a.plan.parameters(), b.plan.parameters());
  printOther(out, "constants", a.plan.constants(), b.plan.constants());
  printOther(out, "kernels, as they are launched", a.plan.kernels(), b.plan.kernels());
  printOther(out, "images of machine code", a.plan.images(), b.plan.images());
  if (a.plan.ztc_version() != b.plan.ztc_version())
    out << formatv("made by ztc {0} -> {1}\n", a.plan.ztc_version(), b.plan.ztc_version());
  return true;
}

} // namespace ztc::report
