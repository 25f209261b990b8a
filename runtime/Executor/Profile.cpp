#include "runtime/Executor/Profile.h"
#include "runtime/Format/StepText.h"
#include "runtime/Format/Steps/StepDefinition.h"
#include "runtime/Memory/StepBytes.h"
#include <algorithm>
#include <fmt/format.h>
#include <map>

namespace ztc {

namespace {

/// Times and sizes of equal calls, all executions together.
struct Row {
  std::string what;
  uint64_t count = 0;
  uint64_t nanoseconds = 0;
  double shortest = 0; ///< nanoseconds if every execution had been the fastest of its step
  double flops = 0;
  double bytes = 0;

  void add(const StepStatistics &statistics, uint64_t bytesOfOne) {
    count += statistics.count;
    nanoseconds += statistics.nanoseconds;
    shortest += double(statistics.count) * double(statistics.shortest);
    flops += double(statistics.count) * double(statistics.flops);
    bytes += double(statistics.count) * double(bytesOfOne);
  }
};

const char *familyOf(const plan::Step &step) {
  const StepDefinition *definition = definitionOf(step);
  return definition ? definition->family(step) : "events";
}

/// Calls visit(program, step, statistics) for what was executed in training.
template <typename Visit> void forEachStep(const ProfileSource &source, Visit visit) {
  for (size_t p = 0; p < source.statistics.size(); ++p) {
    const ProgramStatistics &program = source.statistics[p];
    if (program.program != "microstep" && program.program != "update")
      continue;
    for (size_t s = 0; s < program.steps.size(); ++s)
      visit(program.program, source.plan.programs(int(p)).steps(int(s)), program.steps[s]);
  }
}

/// Rows in the order in which their keys are first seen.
class Rows {
public:
  Row &operator[](const std::string &key) {
    auto [found, isNew] = index_.try_emplace(key, rows_.size());
    if (isNew)
      rows_.push_back({.what = key});
    return rows_[found->second];
  }
  std::vector<Row> sorted() const {
    std::vector<Row> rows = rows_;
    std::sort(rows.begin(), rows.end(), [](const Row &a, const Row &b) {
      return a.nanoseconds != b.nanoseconds ? a.nanoseconds > b.nanoseconds : a.what < b.what;
    });
    return rows;
  }
  const std::vector<Row> &inOrder() const { return rows_; }

private:
  std::map<std::string, size_t> index_;
  std::vector<Row> rows_;
};

/// How near a row comes to the nearer of the machine's limits.
std::string limitText(const Row &row, const DeviceLimits &limits) {
  double seconds = double(row.nanoseconds) / 1e9;
  double matmul = limits.matmulFlopsPerSecond > 0 ? row.flops / seconds / limits.matmulFlopsPerSecond : 0;
  double copy = limits.copyBytesPerSecond > 0 ? row.bytes / seconds / limits.copyBytesPerSecond : 0;
  if (std::max(matmul, copy) <= 0)
    return "";
  return fmt::format("{:.0f} % {}", 100 * std::max(matmul, copy), matmul > copy ? "matmul" : "copy");
}

std::string rate(double amount, uint64_t nanoseconds) {
  return amount > 0 && nanoseconds > 0 ? fmt::format("{:.1f}", amount / double(nanoseconds)) : "";
}

constexpr const char *kHeader =
    "  share   ms/step  at best  calls/step    us/call     GB/s  GFLOP/s    of limit  what\n";

std::string rowText(const Row &row, const ProfileSource &source) {
  double steps = double(std::max<uint64_t>(1, source.steps)), ns = double(row.nanoseconds);
  return fmt::format("{:5.1f} % {:9.3f} {:8.3f} {:11.4g} {:10.1f} {:>8} {:>8} {:>11}  {}\n",
                     source.seconds > 0 ? ns / source.seconds / 1e7 : 0, ns / 1e6 / steps, row.shortest / 1e6 / steps,
                     double(row.count) / steps, row.count ? ns / 1e3 / double(row.count) : 0,
                     rate(row.bytes, row.nanoseconds), rate(row.flops, row.nanoseconds),
                     row.nanoseconds ? limitText(row, source.limits) : "", row.what);
}

} // namespace

ProfileSummary summarizeProfile(const ProfileSource &source) {
  ProfileSummary summary;
  double steps = double(std::max<uint64_t>(1, source.steps)), inSteps = 0, best = 0;
  forEachStep(source, [&](const std::string &, const plan::Step &step, const StepStatistics &statistics) {
    if (statistics.count == 0)
      return;
    if (step.stream() == 0) {
      inSteps += double(statistics.nanoseconds) / 1e9;
      best += double(statistics.count) * double(statistics.shortest) / 1e9;
    }
    if (isProduct(workOf(source.plan, step)))
      summary.productFlops += double(statistics.count) * double(statistics.flops) / steps;
  });
  summary.stepSeconds = source.seconds / steps;
  summary.bestSeconds = best / steps;
  summary.accounted = source.seconds > 0 ? inSteps / source.seconds : 0;
  if (source.limits.matmulFlopsPerSecond > 0)
    summary.matmulBoundSeconds = summary.productFlops / source.limits.matmulFlopsPerSecond;
  return summary;
}

std::vector<ProfileRow> profileRows(const ProfileSource &source) {
  Rows calls;
  std::map<std::string, bool> products;
  forEachStep(source, [&](const std::string &, const plan::Step &step, const StepStatistics &statistics) {
    if (statistics.count == 0)
      return;
    const std::string what = stepCallText(source.plan, step);
    calls[what].add(statistics, stepBytes(source.plan, source.memory, source.shape, step));
    products[what] = isProduct(workOf(source.plan, step));
  });
  const double steps = double(std::max<uint64_t>(1, source.steps));
  std::vector<ProfileRow> rows;
  for (const Row &row : calls.sorted())
    rows.push_back({row.what, double(row.count) / steps, double(row.nanoseconds) / 1e9 / steps, row.bytes / steps,
                    row.flops / steps, products[row.what]});
  return rows;
}

std::string profileText(const ProfileSource &source) {
  Rows kinds, calls;
  forEachStep(source, [&](const std::string &program, const plan::Step &step, const StepStatistics &statistics) {
    if (statistics.count == 0)
      return;
    uint64_t bytes = stepBytes(source.plan, source.memory, source.shape, step);
    std::string stream = step.stream() ? fmt::format(" (stream {})", step.stream()) : "";
    kinds[familyOf(step) + stream].add(statistics, bytes);
    std::string what = stepCallText(source.plan, step) + stream;
    calls[source.everyStep ? fmt::format("{} {}: {}", program, step.name(), what) : what].add(statistics, bytes);
  });

  ProfileSummary summary = summarizeProfile(source);
  std::string text = fmt::format("profile of {} steps, {:.3f} ms each\n", source.steps, summary.stepSeconds * 1e3);
  if (source.limits.matmulFlopsPerSecond > 0)
    text += fmt::format("limits of this machine, measured just before the run: copying {:.1f} GB/s (read and written "
                        "bytes), {} {:.1f} GFLOP/s\n",
                        source.limits.copyBytesPerSecond / 1e9, source.limits.matmulName,
                        source.limits.matmulFlopsPerSecond / 1e9);
  text += "at best: every step as in its fastest execution; bytes: operands once each, without the scratch of library "
          "calls; "
          "flops: as the plan states\n\nby kind\n";
  text += kHeader;
  for (const Row &row : kinds.sorted())
    text += rowText(row, source);
  text += source.everyStep ? "\nby step\n" : "\nby kernel and library call\n";
  text += kHeader;
  for (const Row &row : source.everyStep ? calls.inOrder() : calls.sorted())
    text += rowText(row, source);
  text += fmt::format("{:5.1f} % {:9.3f} {:>63}  {}\n", 100 * (1 - summary.accounted),
                      (1 - summary.accounted) * summary.stepSeconds * 1e3, "", "between steps (data, log, the loop)");
  text +=
      fmt::format("100.0 % {:9.3f} {:8.3f} {:>54}  all\n", summary.stepSeconds * 1e3, summary.bestSeconds * 1e3, "");
  if (summary.matmulBoundSeconds > 0)
    text += fmt::format("\nmatrix products, attention and head: {:.2f} GFLOP a step, {:.3f} ms at the measured rate: "
                        "the step runs at {:.1f} % of that bound ({:.1f} % at best)\n",
                        summary.productFlops / 1e9, summary.matmulBoundSeconds * 1e3,
                        100 * summary.matmulBoundSeconds / summary.stepSeconds,
                        100 * summary.matmulBoundSeconds / summary.bestSeconds);
  return text;
}

} // namespace ztc
