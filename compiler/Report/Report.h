// The texts of `ztc compile`, `memory`, `check`, `inspect` and `diff`.
#pragma once
#include "compiler/Analysis/KeptCodes.h"
#include "compiler/Analysis/KeptGathers.h"
#include "compiler/Report/Spaces.h"
#include "frontends/onnx/Import.h"
#include "passes/Recompute/ChooseRecomputed.h"
#include "runtime/Format/PlanFile.h"
#include "runtime/Memory/Planner.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"
#include <set>

namespace ztc::report {

/// Three lines after a compilation: model, memory by class, time.
void printCompileSummary(llvm::raw_ostream &out, const plan::Plan &plan, const MemoryPlan &memory,
                         const std::string &file, const PlanShape &shape, double seconds);

/// What --recompute=auto chose and why: a few lines.
void printDecision(llvm::raw_ostream &out, const RecomputeDecision &decision, uint64_t budgetBytes,
                   uint64_t reserveBytes);
/// The same in some words: "pointwise 32/32, mlp 12/32"; "nothing" where all is kept.
std::string decisionText(const RecomputeDecision &decision);

/// One slot of those that the peak consists of, or its gaps.
struct PeakShare {
  std::string name, memoryClass, reason;
  int64_t layer; ///< -1: in no block
  uint64_t bytes;
};
/// Why these bytes: they sum to the arena.
std::vector<PeakShare> explainPeak(const plan::Plan &plan, const MemoryPlan &memory);
/// The same as lines, the largest first; blocks that are alike are one line.
void printPeak(llvm::raw_ostream &out, const std::vector<PeakShare> &shares);
/// Block numbers as ranges: "0-3,7"; "-" for what lies in none.
std::string layersText(const std::set<int64_t> &layers);

/// Rows of `ztc memory`.
class MemoryTable {
public:
  /// `budgetBytes` of --mem, per rank, which peak and reserve are held against; 0: none.
  explicit MemoryTable(uint64_t budgetBytes) : budgetBytes(budgetBytes) {}
  /// `decision`: where --recompute=auto searched for this row.
  void add(const ProbedPlan &probed, const PlanShape &shape, unsigned stage, const MemoryPlan &memory,
           uint64_t reserveBytes, const std::optional<RecomputeDecision> &decision, bool explain);
  void printText(llvm::raw_ostream &out) const;
  void printJson(llvm::raw_ostream &out) const;

private:
  struct Row {
    PlanShape shape;
    unsigned stage;
    MemoryPlan memory;
    uint64_t reserveBytes, hostBytes, sentBytes;
    uint64_t lossRows;      ///< of logits at a time on a GPU; 0 on a host, or without a loss
    int64_t recomputeFlops; ///< of one micro-step
    double seconds;         ///< of an optimizer step, by the cost model
    std::optional<RecomputeDecision> decision;
    std::array<SpaceUse, 2> spaces;
    std::vector<PeakShare> explanation;
    GatherLives gathers;
    std::string gathersText; ///< the same in words
    CodeLives codes;
    std::string codesText; ///< the same in words
  };
  uint64_t budgetBytes;
  std::vector<Row> rows;
  std::string quantized; ///< what of the model is stored in fewer bits
};

/// How far a model came.
struct CheckOutcome {
  bool imports = false, trains = false, compiles = false;
  std::string failedPhase; ///< name; empty where none did
  std::vector<std::string> errors, remarks;
};

/// What the importer recognised, layer by layer and parameter by parameter, and how far a compilation comes.
void printCheck(llvm::raw_ostream &out, const ImportReport &report, const CheckOutcome &outcome);
void printCheckJson(llvm::raw_ostream &out, const ImportReport &report, const CheckOutcome &outcome);

/// The plan as a document: model, options, parameters, buckets, memory, and every step of every program.
void printPlanText(llvm::raw_ostream &out, const LoadedPlan &loaded, const PlanShape &shape, const MemoryPlan &memory);
/// The arena slot by slot, in order of offset, with what lives at the peak.
void printPlanMemory(llvm::raw_ostream &out, const plan::Plan &plan, const MemoryPlan &memory);
/// What `inspect --kernels` puts first.
enum class KernelOrder { Bytes, Flops };
/// Generated kernels and library calls: form, versions with what they fill of a GPU, text, who executes a call and why,
/// how often each runs, bytes and flops of one execution of all programs of training (one micro-step, one update); the
/// largest first.
void printPlanKernels(llvm::raw_ostream &out, const plan::Plan &plan, const PlanShape &shape, const MemoryPlan &memory,
                      KernelOrder order);
/// What an optimizer step takes by kinds of work, those of a profile's table, and the rest: what is sent and moved, the
/// update, launches. By the cost model.
void printPlanTime(llvm::raw_ostream &out, const plan::Plan &plan, const PlanShape &shape, const MemoryPlan &memory);
/// Kernels, library calls and images as attributes of an open object, in the plan's order.
void addKernelsJson(llvm::json::OStream &json, const plan::Plan &plan, const PlanShape &shape,
                    const MemoryPlan &memory);
void printPlanJson(llvm::raw_ostream &out, const LoadedPlan &loaded, const PlanShape &shape, const MemoryPlan &memory);
/// Prints what differs for ranks of that shape: options, memory, time by the cost model, traffic, blocks, steps. True
/// where something does.
StatusOr<bool> printPlanDiff(llvm::raw_ostream &out, const LoadedPlan &a, const LoadedPlan &b, const PlanShape &shape);

/// One line for a step: name, kind with its sizes, operands by slot name.
std::string describeStep(const plan::Plan &plan, const plan::Step &step);

} // namespace ztc::report
