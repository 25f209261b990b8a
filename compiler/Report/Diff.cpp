// `ztc diff`: what changed between two plans.
#include "compiler/Report/Report.h"
#include "llvm/Support/FormatVariadic.h"
#include <map>
#include <set>

using llvm::formatv;

namespace ztc {

namespace {
/// The steps of a program as lines, counted.
std::map<std::string, int> linesOf(const plan::Plan &p, const std::string &program) {
  std::map<std::string, int> lines;
  for (const plan::Program &candidate : p.programs())
    if (candidate.name() == program)
      for (const plan::Step &step : candidate.steps())
        ++lines[describeStep(p, step)];
  return lines;
}
} // namespace

int printPlanDiff(llvm::raw_ostream &out, const LoadedPlan &a, const LoadedPlan &b) {
  if (a.sha256 == b.sha256) {
    out << "the plans are equal\n";
    return 0;
  }
  std::set<std::string> names;
  for (const auto &[name, value] : a.plan.options())
    names.insert(name);
  for (const auto &[name, value] : b.plan.options())
    names.insert(name);
  auto option = [](const plan::Plan &p, const std::string &name) {
    auto found = p.options().find(name);
    return found == p.options().end() ? std::string("(absent)") : found->second;
  };
  for (const std::string &name : names)
    if (option(a.plan, name) != option(b.plan, name))
      out << formatv("option {0}: {1} -> {2}\n", name, option(a.plan, name), option(b.plan, name));
  StatusOr<MemoryPlan> one = planMemory(a.plan, {}), two = planMemory(b.plan, {});
  if (one.isOk() && two.isOk()) {
    out << formatv("arena (W=1, M=1): {0} -> {1} bytes\n", one->arenaBytes, two->arenaBytes);
    for (size_t c = 0; c < kMemoryClassCount; ++c)
      if (one->byClass[c] != two->byClass[c])
        out << formatv("  {0}: {1} -> {2}\n", kMemoryClassNames[c], one->byClass[c], two->byClass[c]);
  }
  std::set<std::string> programs;
  for (const LoadedPlan *side : {&a, &b})
    for (const plan::Program &program : side->plan.programs())
      programs.insert(program.name());
  for (const std::string &program : programs) {
    std::map<std::string, int> left = linesOf(a.plan, program), right = linesOf(b.plan, program);
    for (const auto &[line, count] : left)
      if (int gone = count - (right.count(line) ? right[line] : 0); gone > 0)
        out << formatv("{0} - {1}\n", program, line);
    for (const auto &[line, count] : right)
      if (int added = count - (left.count(line) ? left[line] : 0); added > 0)
        out << formatv("{0} + {1}\n", program, line);
  }
  return 1;
}

} // namespace ztc
