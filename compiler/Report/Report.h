// The texts of `ztc compile`, `memory`, `check`, `inspect` and `diff`.
#pragma once
#include "frontends/onnx/Import.h"
#include "runtime/Format/PlanFile.h"
#include "runtime/Memory/Planner.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

namespace ztc {

/// Three lines after a compilation: model, memory by class, time.
void printCompileSummary(llvm::raw_ostream &out, const plan::Plan &plan, const MemoryPlan &memory,
                         const std::string &file, double seconds);

/// Rows of `ztc memory`.
class MemoryTable {
public:
  /// `budgetBytes` of --mem, per rank, which peak and reserve are held against; 0: none.
  explicit MemoryTable(uint64_t budgetBytes) : budgetBytes(budgetBytes) {}
  /// `recomputeFlops`: of what is computed again in one micro-step.
  void add(const plan::Plan &plan, const PlanShape &shape, unsigned stage, const MemoryPlan &memory,
           uint64_t reserveBytes, int64_t recomputeFlops, bool explain);
  void printText(llvm::raw_ostream &out) const;
  void printJson(llvm::raw_ostream &out) const;

private:
  struct Row {
    PlanShape shape;
    unsigned stage;
    MemoryPlan memory;
    uint64_t reserveBytes, hostBytes, sentBytes;
    int64_t recomputeFlops;
    std::vector<std::string> explanation;
  };
  uint64_t budgetBytes;
  std::vector<Row> rows;
};

/// What the importer recognised; `differentiated` tells whether every op on the way to the loss has a derivative.
void printCheck(llvm::raw_ostream &out, const ImportReport &report, bool imported, bool differentiated);

/// The plan as a document: model, options, parameters, buckets, memory, and every step of every program.
void printPlanText(llvm::raw_ostream &out, const LoadedPlan &loaded, const PlanShape &shape, const MemoryPlan &memory);
/// The arena slot by slot, in order of offset, with what lives at the peak.
void printPlanMemory(llvm::raw_ostream &out, const plan::Plan &plan, const MemoryPlan &memory);
/// What `inspect --kernels` puts first.
enum class KernelOrder { Bytes, Flops };
/// Generated kernels and library calls: form, versions, text, how often each runs, bytes and flops of one execution of
/// all programs of training (one micro-step, one update); the largest first.
void printPlanKernels(llvm::raw_ostream &out, const plan::Plan &plan, const PlanShape &shape, const MemoryPlan &memory,
                      KernelOrder order);
void printPlanJson(llvm::raw_ostream &out, const LoadedPlan &loaded, const MemoryPlan &memory);
/// Prints what differs; returns 0 where nothing does, else 1.
int printPlanDiff(llvm::raw_ostream &out, const LoadedPlan &a, const LoadedPlan &b);

/// One line for a step: name, kind with its sizes, operands by slot name.
std::string describeStep(const plan::Plan &plan, const plan::Step &step);

/// The lines of "why these bytes": what is live at the peak, largest first.
std::vector<std::string> explainPeak(const plan::Plan &plan, const MemoryPlan &memory);

} // namespace ztc
