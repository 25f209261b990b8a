// `ztc memory` and the summary after `ztc compile`.
#include "compiler/Report/MuonWork.h"
#include "compiler/Report/Report.h"
#include "runtime/Core/Sizes.h"
#include "runtime/Format/BlockState.h"
#include "runtime/Format/PlanValidator.h"
#include "runtime/Format/QuantizedWeight.h"
#include "runtime/Format/Steps/LossRows.h"
#include "runtime/Memory/Traffic.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <map>

using llvm::formatv;
using llvm::raw_ostream;

namespace ztc::report {

/// Host memory beside the arena: program text, thread stacks and staging; measured, not planned.
static constexpr uint64_t kHostBytes = 64ull << 20;

/// Which states are in 8 bits and which are not; empty where none is. Names that differ by numbers alone stand once.
static std::string describeBlockStates(const plan::Plan &plan) {
  uint64_t inBlocks = 0;
  std::map<std::string, unsigned> wide;
  for (const plan::Parameter &parameter : plan.parameters()) {
    const plan::Bucket &bucket = plan.buckets(int(parameter.bucket()));
    if (!parameter.trainable() || bucket.states().empty())
      continue;
    if (isBlockState(plan.slots(int(bucket.states(0).slot())).type())) {
      inBlocks += elementCount(parameter.shape()).value_or(0);
      continue;
    }
    std::string name;
    for (const char c : parameter.name())
      if (!llvm::isDigit(c))
        name += c;
      else if (name.empty() || name.back() != '*')
        name += '*';
    ++wide[name];
  }
  if (!inBlocks)
    return {};
  std::vector<std::string> names;
  for (const auto &[name, count] : wide)
    names.push_back(count == 1 ? name : formatv("{0} ({1})", name, count).str());
  return formatv("optimizer states in 8 bits of {0} elements, 260 bytes for 256 of them; in fp32 of embeddings and of "
                 "tensors with fewer than {1} elements: {2}",
                 inBlocks, kSmallestBlockState, names.empty() ? "none" : llvm::join(names, ", "));
}

/// What is stored in fewer bits, a line each.
static std::string describeFewerBits(const plan::Plan &plan) {
  const std::string weights = describeQuantized(plan), states = describeBlockStates(plan);
  return weights + (weights.empty() || states.empty() ? "" : "\n") + states;
}

void printCompileSummary(raw_ostream &out, const plan::Plan &p, const MemoryPlan &memory, const std::string &file,
                         const PlanShape &shape, double seconds) {
  unsigned steps = 0;
  for (const plan::Program &program : p.programs())
    steps += program.steps_size();
  out << formatv("{0}: {1} parameters, {2} layers; micro-batch {3} x {4}, {5}, ZeRO-{6}\n", p.model().name(),
                 p.model().parameters(), p.model().layers(), p.model().batch(), p.model().seq(), p.precision(),
                 p.zero());
  if (const std::string quantized = describeFewerBits(p); !quantized.empty())
    out << quantized << "\n";
  out << formatv("arena {0} ({1} bytes):", formatSize(memory.arenaBytes), memory.arenaBytes);
  for (size_t c = 0; c < kMemoryClassCount; ++c)
    if (memory.byClass[c])
      out << formatv(" {0} {1},", kMemoryClassNames[c], formatSize(memory.byClass[c]));
  out << formatv(" peak in {0}\n", memory.peakProgram);
  printSpaces(out, spaceUses(p, memory, shape));
  if (const std::string gathers = describeGathers(p, shape); !gathers.empty())
    out << gathers << "\n";
  if (const std::string codes = describeCodes(p); !codes.empty())
    out << codes << "\n";
  if (const std::string muon = describeMuon(p, memory, shape); !muon.empty())
    out << muon << "\n";
  out << formatv("{0}: {1} steps, {2} kernels, {3:F1} s\n", file, steps, p.kernels_size(), seconds);
}

void MemoryTable::add(const ProbedPlan &probed, const PlanShape &shape, unsigned stage, const MemoryPlan &memory,
                      uint64_t reserveBytes, const std::optional<RecomputeDecision> &decision, bool explain) {
  const plan::Plan &plan = probed.plan;
  quantized = describeFewerBits(plan);
  Row row{shape, stage, memory, reserveBytes, kHostBytes, 0, 0, probed.againFlops, 0, decision, {}, {}, {}, {}, {}, {}};
  row.lossRows = shape.threads ? 0 : trainingLoss(plan).rows;
  row.sentBytes = sentBytes(plan, shape).parametersAndGradients();
  row.seconds = planSeconds(plan, memory, shape, ratesOf(shape));
  row.spaces = spaceUses(plan, memory, shape);
  row.gathers = gatherLives(plan, shape);
  row.gathersText = describeGathers(plan, shape);
  row.codes = codeLives(plan);
  row.codesText = describeCodes(plan);
  if (const std::string muon = describeMuon(plan, memory, shape); !muon.empty())
    row.gathersText += (row.gathersText.empty() ? "" : "\n      ") + muon;
  if (explain)
    row.explanation = explainPeak(plan, memory);
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
    if (row.decision)
      out << "; recomputed: " << decisionText(*row.decision);
    if (row.lossRows)
      out << (budgetBytes || row.decision ? "; " : "   ") << "logits " << row.lossRows << " rows at a time";
    out << "\n";
    for (const std::string &text : {row.gathersText, row.codesText})
      if (!text.empty())
        out << "      " << text << "\n";
    printSpaces(out, row.spaces);
    if (!row.explanation.empty())
      printPeak(out, row.explanation);
  }
  if (!rows.empty())
    out << "per rank, " << (rows.front().shape.threads ? "on a host" : "on a GPU")
        << ". The arena is one allocation of `peak bytes`, the classes are what it holds at the peak\n";
  if (!quantized.empty())
    out << quantized << "\n";
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
          json.attribute("device", row.shape.threads ? "host" : "gpu");
          if (row.shape.threads)
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
          if (row.lossRows)
            json.attribute("loss_rows", int64_t(row.lossRows));
          if (row.gathers.gathered) {
            json.attribute("gathered_buckets", int64_t(row.gathers.gathered));
            json.attribute("early_buckets", int64_t(row.gathers.early));
            json.attribute("early_bytes", int64_t(row.gathers.earlyBytes));
            json.attribute("kept_buckets", int64_t(row.gathers.kept));
            json.attribute("kept_bytes", int64_t(row.gathers.keptBytes));
          }
          if (row.codes.weights) {
            json.attribute("fp8_weights", int64_t(row.codes.weights));
            json.attribute("kept_fp8_weights", int64_t(row.codes.kept));
            json.attribute("kept_fp8_bytes", int64_t(row.codes.keptBytes));
          }
          writeSpaces(json, row.spaces);
          json.attribute("recompute_flops", row.recomputeFlops);
          json.attribute("cost_model_seconds", row.seconds);
          if (row.decision) {
            json.attribute("recomputed", row.decision->choice.text());
            json.attribute("peak_bytes_kept", int64_t(row.decision->kept.peakBytes));
            json.attribute("cost_model_seconds_kept", row.decision->kept.seconds);
          }
          json.attribute("sent_bytes", int64_t(row.sentBytes));
          if (!row.explanation.empty())
            json.attributeArray("explain", [&] {
              for (const PeakShare &share : row.explanation)
                json.object([&] {
                  json.attribute("tensor", share.name);
                  json.attribute("layer", share.layer);
                  json.attribute("class", share.memoryClass);
                  json.attribute("reason", share.reason);
                  json.attribute("bytes", int64_t(share.bytes));
                });
            });
        });
    });
  });
  out << "\n";
}

} // namespace ztc::report
