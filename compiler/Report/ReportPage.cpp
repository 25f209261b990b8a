#include "compiler/Report/ReportPage.h"
#include "compiler/Report/KernelUses.h"
#include "runtime/Core/Sizes.h"
#include "runtime/Memory/MemoryTimeline.h"
#include "runtime/Memory/Traffic.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"
#include <algorithm>
#include <tuple>

namespace ztc::report {

using llvm::json::Array;
using llvm::json::Object;
using llvm::json::Value;

/// What a chart has room for: more points make a page slow and no curve clearer.
static constexpr size_t kMostPoints = 4000;
static constexpr size_t kMostMoments = 3000;

/// Of each stretch of steps the ones with the least and the largest loss: spikes stay.
static std::vector<const Object *> thinnedOut(const std::vector<Object> &steps) {
  std::vector<const Object *> kept;
  const size_t stretch = (steps.size() + kMostPoints / 2 - 1) / std::max<size_t>(1, kMostPoints / 2);
  const auto loss = [](const Object *step) { return step->getNumber("loss").value_or(0); };
  for (size_t begin = 0; begin < steps.size(); begin += std::max<size_t>(1, stretch)) {
    const size_t end = std::min(steps.size(), begin + std::max<size_t>(1, stretch));
    const Object *least = &steps[begin], *most = &steps[begin];
    for (size_t i = begin; i < end; ++i) {
      if (loss(&steps[i]) < loss(least))
        least = &steps[i];
      if (loss(&steps[i]) > loss(most))
        most = &steps[i];
    }
    kept.push_back(std::min(least, most));
    if (least != most)
      kept.push_back(std::max(least, most));
  }
  return kept;
}

static Value valueOf(const Object &object, llvm::StringRef key) {
  const Value *value = object.get(key);
  return value ? *value : Value(nullptr);
}

/// LLVM's objects can be moved only, its values copied too.
static Value copyOf(const Object &object) {
  Object copy;
  for (const auto &[key, value] : object)
    copy[key] = value;
  return copy;
}

/// A curve for each set of held-out data, in the order of the log.
static Array pageEvaluations(const RunLog &log) {
  std::vector<std::string> names;
  for (const Object &evaluation : log.evaluations) {
    std::string name = evaluation.getString("name").value_or("").str();
    if (!llvm::is_contained(names, name))
      names.push_back(std::move(name));
  }
  Array sets;
  for (const std::string &name : names) {
    Array at, loss;
    for (const Object &evaluation : log.evaluations) {
      if (evaluation.getString("name").value_or("") != name)
        continue;
      at.push_back(valueOf(evaluation, "step"));
      loss.push_back(valueOf(evaluation, "eval_loss"));
    }
    sets.push_back(Object{{"name", name}, {"step", std::move(at)}, {"loss", std::move(loss)}});
  }
  return sets;
}

Object pageRun(const RunLog &log) {
  Object steps;
  std::vector<const Object *> kept;
  if (log.steps.size() > kMostPoints)
    kept = thinnedOut(log.steps);
  else
    for (const Object &step : log.steps)
      kept.push_back(&step);
  for (const char *key : {"step", "loss", "grad_norm", "lr", "tokens_per_second", "sent_bytes", "loss_scale"}) {
    Array column;
    for (const Object *step : kept)
      column.push_back(valueOf(*step, key));
    steps[key] = std::move(column);
  }
  Object run{
      {"name", log.name}, {"header", copyOf(log.header)}, {"steps", std::move(steps)}, {"evals", pageEvaluations(log)}};
  if (log.summary)
    run["summary"] = copyOf(*log.summary);
  if (log.profile)
    run["profile"] = copyOf(*log.profile);
  return run;
}

/// Of neighbouring moments the one with the most live bytes stands for all where there are more than a chart shows.
static Object pageTimeline(const MemoryTimeline &timeline) {
  const size_t all = timeline.moments.size(), stretch = (all + kMostMoments - 1) / kMostMoments;
  const auto live = [](const MemoryMoment &moment) {
    uint64_t sum = 0;
    for (uint64_t bytes : moment.byClass)
      sum += bytes;
    return sum;
  };
  Array moments;
  for (size_t begin = 0; begin < all; begin += stretch) {
    const auto first = timeline.moments.begin() + ptrdiff_t(begin);
    const auto last = timeline.moments.begin() + ptrdiff_t(std::min(all, begin + stretch));
    const MemoryMoment &most =
        *std::max_element(first, last, [&](const MemoryMoment &a, const MemoryMoment &b) { return live(a) < live(b); });
    Array classes;
    for (uint64_t bytes : most.byClass)
      classes.push_back(int64_t(bytes));
    moments.push_back(std::move(classes));
  }
  Array programs;
  for (const MemoryTimeline::Stretch &program : timeline.programs)
    programs.push_back(Object{{"program", program.program}, {"begin", int64_t(program.begin / stretch)}});
  return Object{{"programs", std::move(programs)}, {"live", std::move(moments)}};
}

static Array pagePeak(const plan::Plan &plan, const MemoryPlan &memory) {
  std::vector<PeakShare> shares = explainPeak(plan, memory);
  llvm::sort(shares, [](const PeakShare &a, const PeakShare &b) {
    return std::tie(b.bytes, a.name) < std::tie(a.bytes, b.name);
  });
  Array peak;
  for (const PeakShare &share : shares)
    peak.push_back(Object{{"tensor", share.name},
                          {"layer", share.layer},
                          {"class", share.memoryClass},
                          {"reason", share.reason},
                          {"bytes", int64_t(share.bytes)}});
  return peak;
}

static Array pageKernels(const plan::Plan &plan, const PlanShape &shape, const MemoryPlan &memory) {
  const KernelUses uses = collectKernelUses(plan, shape, memory);
  Array kernels;
  const auto add = [&](const KernelUse &use, bool isProduct) {
    unsigned launches = 0;
    for (const auto &[program, count] : use.launches)
      if (program == "microstep" || program == "update")
        launches += count;
    if (launches)
      kernels.push_back(Object{{"name", use.kernel >= 0 ? plan.kernels(use.kernel).name() : use.what},
                               {"launches", int64_t(launches)},
                               {"bytes", int64_t(use.bytes)},
                               {"flops", int64_t(use.flops)},
                               {"is_product", isProduct}});
  };
  for (const KernelUse &use : uses.kernels)
    add(use, false);
  for (const KernelUse &use : uses.calls)
    add(use, true);
  return kernels;
}

Object pagePlan(const plan::Plan &plan, const PlanShape &shape, const MemoryPlan &memory, llvm::StringRef title,
                const Object *profile) {
  Array classes;
  for (size_t c = 0; c + 1 < kMemoryClassCount; ++c)
    classes.push_back(kMemoryClassNames[c]);
  const SentBytes sent = sentBytes(plan, shape);
  Object page{{"title", title.str()},
              {"note", plan.model().name() + ", micro-batch " + std::to_string(plan.model().batch()) + " x " +
                           std::to_string(plan.model().seq()) + " tokens, " + plan.precision() + ", ZeRO-" +
                           std::to_string(plan.zero())},
              {"shape", shapeText(shape)},
              {"arena_bytes", int64_t(memory.arenaBytes)},
              {"peak_program", memory.peakProgram},
              {"classes", std::move(classes)},
              {"timeline", pageTimeline(memoryTimeline(plan, shape, memory))},
              {"peak", pagePeak(plan, memory)}};
  if (plan.kernels_size())
    page["kernels"] = pageKernels(plan, shape, memory);
  if (shape.world > 1)
    page["sent"] = Object{{"all-gather", int64_t(sent.allGather)},
                          {"reduce-scatter", int64_t(sent.reduceScatter)},
                          {"all-reduce", int64_t(sent.allReduce)}};
  if (profile && profile->getNumber("copy_bytes_per_second").value_or(0) > 0 &&
      profile->getNumber("matmul_flops_per_second").value_or(0) > 0)
    page["limits"] = copyOf(*profile);
  return page;
}

/// JSON inside of a script element: no text in it may end that.
static std::string embedded(const Value &value) {
  std::string text, safe;
  llvm::raw_string_ostream(text) << value;
  for (char c : text)
    if (c == '<')
      safe += "\\u003c"; // valid JSON, which HTML does not see
    else
      safe += c;
  return safe;
}

static std::string htmlText(llvm::StringRef text) {
  std::string safe;
  for (char c : text)
    safe += c == '<' ? "&lt;" : c == '&' ? "&amp;" : std::string(1, c);
  return safe;
}

void printPage(llvm::raw_ostream &out, llvm::StringRef title, llvm::StringRef note, Array runs, Array plans) {
  const Value data = Object{{"title", title}, {"note", note}, {"runs", std::move(runs)}, {"plans", std::move(plans)}};
  out << "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      << "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      << "<title>" << htmlText(title) << "</title>\n<style>\n"
      << kReportStyle << "</style>\n</head>\n<body>\n<script type=\"application/json\" id=\"data\">" << embedded(data)
      << "</script>\n<script>\n"
      << kReportScript << "</script>\n</body>\n</html>\n";
}

} // namespace ztc::report
