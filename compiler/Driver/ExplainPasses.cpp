#include "compiler/Driver/ExplainPasses.h"
#include "mlir/IR/Diagnostics.h"
#include "runtime/Core/Print.h"
#include "runtime/Core/Sizes.h"
#include "runtime/Format/StepText.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include <array>
#include <cmath>

using namespace mlir;

namespace ztc::driver {

/// Copies the step before and after each pass of a plugin; what they take is measured when the phase is over: no
/// pipeline runs within another.
class PassExplainer::Instrumentation : public PassInstrumentation {
public:
  explicit Instrumentation(PassExplainer &owner) : owner(owner) {}

  void runBeforePass(Pass *pass, Operation *op) override {
    const PhaseHooks::Origin *origin = owner.hooks.originOf(pass);
    const bool isFirstAfter =
        origin && origin->place == PhaseHooks::Place::After && (owner.states.empty() || owner.states.back().inPhase);
    if (auto module = dyn_cast<ModuleOp>(op); module && isFirstAfter)
      owner.states.push_back({"", false, false, module.clone()});
  }

  void runAfterPass(Pass *pass, Operation *op) override {
    const PhaseHooks::Origin *origin = owner.hooks.originOf(pass);
    auto module = dyn_cast<ModuleOp>(op);
    if (!origin || !module)
      return;
    const bool isMeasured = origin->place != PhaseHooks::Place::Within;
    owner.states.push_back({describePass(*pass, origin->plugin), true, origin->place == PhaseHooks::Place::Before,
                            isMeasured ? module.clone() : ModuleOp()});
  }

private:
  PassExplainer &owner;
};

std::unique_ptr<PassInstrumentation> PassExplainer::instrumentation() {
  return std::make_unique<Instrumentation>(*this);
}

PassExplainer::Row PassExplainer::measure(std::string what, bool isHook, ModuleOp copy, Phase next) {
  Row row{std::move(what), isHook, std::nullopt, ""};
  if (!copy || next > Phase::Codegen) {
    row.gap = next > Phase::Codegen ? "no machine code is made here" : "it is part of its phase, see there";
    return row;
  }
  ScopedDiagnosticHandler handler(copy.getContext(), [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error && row.gap.empty())
      row.gap = "the rest of the pipeline fails: " + diagnostic.str();
    return success();
  });
  FailureOr<plan::Plan> plan = finish(copy, next);
  if (failed(plan)) {
    if (row.gap.empty())
      row.gap = "the rest of the pipeline fails";
    return row;
  }
  StatusOr<StepTotals> totals = totalPlan(*plan, shape);
  if (!totals.isOk()) {
    row.gap = totals.status().message();
    return row;
  }
  row.gap.clear();
  row.totals = *totals;
  return row;
}

void PassExplainer::beginPhase(Phase phase, ModuleOp module) {
  states.clear();
  if (!rows.empty())
    return;
  OwningOpRef<ModuleOp> copy(module.clone());
  rows.push_back(measure("before phase " + std::string(allPhases()[size_t(phase)].name), false, *copy, phase));
}

void PassExplainer::endPhase(Phase phase, ModuleOp module) {
  const PhaseInfo &info = allPhases()[size_t(phase)];
  const std::string name = std::string("phase ") + info.name;
  const Phase next = Phase(unsigned(phase) + 1);
  // The phase's own passes end where the first hook after them begins, or with the phase.
  const bool hasHooksAfter = !states.empty() && !states.back().inPhase && states.back().module;
  if (!hasHooksAfter && phase <= Phase::Assign)
    states.push_back({"", false, false, module.clone()});
  for (State &state : states) {
    Row row = measure(state.isHook ? state.what : name, state.isHook, state.module ? *state.module : ModuleOp(),
                      state.inPhase ? phase : next);
    if (state.isHook || phase <= Phase::Assign)
      rows.push_back(std::move(row));
  }
  states.clear();
}

namespace {

/// "+1.5 MiB", "." where nothing changed.
std::string signedSize(uint64_t before, uint64_t after) {
  if (before == after)
    return ".";
  return (after > before ? "+" : "-") + formatSize(after > before ? after - before : before - after);
}

std::string number(uint64_t value) {
  return value < 100000 ? std::to_string(value) : llvm::formatv("{0:E2}", double(value)).str();
}
std::string signedNumber(uint64_t before, uint64_t after) {
  if (before == after)
    return ".";
  return (after > before ? "+" : "-") + number(after > before ? after - before : before - after);
}

std::string milliseconds(double seconds) {
  return llvm::formatv("{0:F3} ms", seconds * 1e3);
}
std::string signedMilliseconds(double before, double after) {
  std::string text = milliseconds(std::abs(after - before));
  return text == milliseconds(0) ? "." : (after > before ? "+" : "-") + text;
}

constexpr size_t kColumns = 6;
using Cells = std::array<std::string, kColumns>;
constexpr std::array<const char *, kColumns> kHeadings = {"peak", "moved", "sent", "FLOPs", "launches", "time"};

Cells cellsOf(const StepTotals &totals) {
  return {formatSize(totals.peakBytes), formatSize(totals.movedBytes), formatSize(totals.sentBytes),
          number(totals.flops),         number(totals.launches),       milliseconds(totals.seconds)};
}

Cells changeOf(const StepTotals &a, const StepTotals &b) {
  return {signedSize(a.peakBytes, b.peakBytes), signedSize(a.movedBytes, b.movedBytes),
          signedSize(a.sentBytes, b.sentBytes), signedNumber(a.flops, b.flops),
          signedNumber(a.launches, b.launches), signedMilliseconds(a.seconds, b.seconds)};
}

} // namespace

void PassExplainer::print(llvm::raw_ostream &out) const {
  if (rows.empty())
    return;
  struct Line {
    std::string what;
    Cells cells;
    std::string gap;
  };
  std::vector<Line> lines{{"", {}, ""}};
  for (size_t i = 0; i < kColumns; ++i)
    lines.front().cells[i] = kHeadings[i];
  const StepTotals *last = nullptr;
  for (const Row &row : rows) {
    Line line{(row.isHook ? "  " : "") + row.what, {}, row.totals ? "" : row.gap};
    if (row.totals)
      line.cells = last ? changeOf(*last, *row.totals) : cellsOf(*row.totals);
    if (row.totals)
      last = &*row.totals;
    lines.push_back(std::move(line));
  }
  if (last)
    lines.push_back({"the step", cellsOf(*last), ""});
  std::array<size_t, kColumns> widths{};
  size_t first = 0;
  for (const Line &line : lines) {
    first = std::max(first, line.what.size());
    for (size_t i = 0; i < kColumns; ++i)
      widths[i] = std::max(widths[i], line.cells[i].size());
  }
  out << "what changes a step, per rank with " << shapeText(shape)
      << "; what follows a row is taken as it is by default:\n";
  for (const Line &line : lines) {
    out << llvm::left_justify(line.what, unsigned(first));
    if (!line.gap.empty())
      out << "  not measured: " << printable(line.gap);
    else
      for (size_t i = 0; i < kColumns; ++i)
        out << "  " << llvm::right_justify(line.cells[i], unsigned(widths[i]));
    out << "\n";
  }
}

} // namespace ztc::driver
