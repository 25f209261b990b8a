// `ztc report`: logs of runs and a plan as one page.
#include "compiler/Driver/Commands.h"
#include "compiler/Report/ReportPage.h"
#include "compiler/Support/OutputFile.h"

namespace ztc::driver {

/// The ranks that a run had.
static PlanShape shapeOfRun(const report::RunLog &log) {
  const auto number = [&](const char *key, int64_t otherwise) {
    return uint32_t(std::max<int64_t>(0, log.header.getInteger(key).value_or(otherwise)));
  };
  return {std::max(1u, number("world", 1)), std::max(1u, number("accumulate", 1)), number("threads", 1)};
}

int runReport(const std::vector<std::string> &inputs, const std::string &output) {
  std::vector<report::RunLog> logs;
  std::vector<std::pair<std::string, LoadedPlan>> plans;
  for (const std::string &input : inputs) {
    if (isPlanFile(input)) {
      StatusOr<LoadedPlan> plan = readPlanFile(input);
      if (!plan.isOk())
        return fail(plan.status().message());
      plans.emplace_back(input, std::move(*plan));
      continue;
    }
    StatusOr<report::RunLog> log = report::readRunLog(input);
    if (!log.isOk())
      return fail(log.status().message());
    if (log->isCut)
      llvm::errs() << "ztc: " << input << ": the last line is not complete and is left out\n";
    logs.push_back(std::move(*log));
  }
  llvm::json::Array pageRuns, pagePlans;
  for (const report::RunLog &log : logs)
    pageRuns.push_back(report::pageRun(log));
  for (const auto &[name, loaded] : plans) {
    // As the runs of this plan laid it out; the first one's ranks where none is of this plan.
    const report::RunLog *run = nullptr;
    for (const report::RunLog &log : logs)
      if (!run && log.header.getString("plan_sha256") == llvm::StringRef(loaded.sha256))
        run = &log;
    if (!run && !logs.empty())
      llvm::errs() << "ztc: " << name << ": no log is of a run of this plan: its memory is that of one rank\n";
    const PlanShape shape = run ? shapeOfRun(*run) : PlanShape{};
    StatusOr<MemoryPlan> memory = planMemory(loaded.plan, shape);
    if (!memory.isOk())
      return fail(memory.status().message());
    const llvm::json::Object *profile = run && run->profile ? &*run->profile : nullptr;
    pagePlans.push_back(report::pagePlan(loaded.plan, shape, *memory, "The plan " + name, profile));
  }
  const std::string title = logs.empty()      ? "ztc: " + plans.front().first
                            : logs.size() > 1 ? "ztc: " + std::to_string(logs.size()) + " runs"
                                              : "ztc: " + logs.front().name;
  std::string page;
  llvm::raw_string_ostream stream(page);
  report::printPage(stream, title, "", std::move(pageRuns), std::move(pagePlans));
  if (const std::string problem = writeOutput(output, page); !problem.empty())
    return fail(problem);
  llvm::outs() << output << ": open it in a browser\n";
  return 0;
}

} // namespace ztc::driver
