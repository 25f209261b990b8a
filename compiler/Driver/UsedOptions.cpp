#include "compiler/Driver/UsedOptions.h"
#include "compiler/Codegen/KernelCache.h"
#include "compiler/Driver/LocalGpus.h"
#include "compiler/Driver/Offload.h"
#include "compiler/Driver/RegisteredNames.h"
#include <algorithm>
#include <iostream>

namespace ztc::driver {

void chooseTargets(CompileOptions &o, const Environment &outside) {
  DefaultTargets found = defaultTargets(outside.cuda);
  o.targets = found.targets;
  if (!found.note.empty())
    std::cerr << "ztc: " << found.note << "\n";
}

std::string chooseKernelCache(CompileOptions &o, const Environment &outside) {
  std::string said = o.kernelCache, by = "--kernel-cache=";
  if (said.empty()) {
    said = outside.kernelCache;
    by = "ZTC_KERNEL_CACHE=";
  }
  o.kernelCache.clear();
  if (said == "none" || (said.empty() && outside.kept.empty()))
    return "";
  const std::string folder = said.empty() ? outside.kept + "/kernels" : said;
  if (llvm::Error error = codegen::KernelCache::prepare(folder)) {
    const std::string why = llvm::toString(std::move(error));
    return said.empty() ? "" : by + said + ": " + why;
  }
  o.kernelCache = folder;
  return "";
}

void dropUnused(CompileOptions &o) {
  const auto note = [](const std::string &what) { std::cerr << "ztc: note: " << what << "\n"; };
  if (o.given.count("target") && o.given.count("threads") && !hasHostTarget(o)) {
    note("--threads has no effect: it counts a host's threads, and --target names no host");
    o.threads = 0;
  }
  const bool gathers =
      o.stages.empty() ? o.zero == 3 : std::find(o.stages.begin(), o.stages.end(), 3u) != o.stages.end();
  if (o.prefetch && !gathers && o.from.empty()) { // IR has a stage of its own
    note("--prefetch has no effect: only --zero=3 gathers parameters");
    o.prefetch.reset();
  }
  if (o.keepGathered == Keeping::All && !gathers && o.from.empty()) {
    note("--keep-gathered has no effect: only --zero=3 gathers parameters");
    o.keepGathered = Keeping::Auto;
  }
  if (o.keepFp8Weights == Keeping::All && o.precision != StoragePrecision::Fp8 && o.from.empty()) {
    note("--keep-fp8-weights has no effect: only --precision=fp8 makes codes of weights");
    o.keepFp8Weights = Keeping::Auto;
  }
  if (o.lossRows && std::all_of(o.targets.begin(), o.targets.end(), isHostTarget)) {
    note("--loss-rows has no effect: it is for GPUs, and --target names none");
    o.lossRows = 0;
  }
  if (o.adjustLrFn != AdjustLr::MatchRmsAdamw && !orthogonalizes(o) && o.from.empty()) {
    note("--adjust-lr-fn has no effect: it is for --optimizer=muon");
    o.adjustLrFn = AdjustLr::MatchRmsAdamw;
  }
  if (!o.precisionPolicy.empty() && o.precision == StoragePrecision::Fp32 && o.from.empty()) {
    note("--precision-policy has no effect: it says which layers stay fp32, and with --precision=fp32 all do");
    o.precisionPolicy.clear();
  }
  // Each is compiled once, however often it is named.
  std::vector<std::string> targets;
  const bool hasWholeHost = std::find(o.targets.begin(), o.targets.end(), "host") != o.targets.end();
  for (const std::string &target : o.targets)
    if (std::find(targets.begin(), targets.end(), target) == targets.end() &&
        !(hasWholeHost && target.starts_with("x86-64"))) // `host` is both instruction sets
      targets.push_back(target);
  o.targets = targets;
}

/// What --optimizer=muon cannot be together with; empty where nothing is.
static std::string conflictOfMuon(const CompileOptions &o) {
  if (!orthogonalizes(o))
    return {};
  if (o.updateTime == UpdateTime::InBackward)
    return "--update=in-backward: muon gathers the direction of a whole bucket, which the backward would wait for: "
           "leave it out, or take another --optimizer";
  return {};
}

/// What --update=in-backward cannot be together with; empty where nothing is.
static std::string conflictOfUpdate(const CompileOptions &o) {
  if (o.updateTime != UpdateTime::InBackward)
    return {};
  if (o.precision == StoragePrecision::Fp16)
    return "--update=in-backward: in fp16 a step is dropped where gradients overflow, which is not known before the "
           "last of them: take --precision=bf16";
  if (o.accumulate > 1)
    return "--update=in-backward: a step is one micro-step, --accumulate=" + std::to_string(o.accumulate) +
           " makes several: take a larger --batch instead";
  return {};
}

std::string conflictOfOptions(const CompileOptions &o) {
  const std::string conflict = conflictOfUpdate(o);
  return conflict.empty() ? conflictOfMuon(o) : conflict;
}

} // namespace ztc::driver
