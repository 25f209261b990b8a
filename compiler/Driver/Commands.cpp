#include "compiler/Driver/Commands.h"
#include "compiler/Analysis/GpuModels.h"
#include "compiler/Analysis/Recomputation.h"
#include "compiler/Codegen/Codegen.h"
#include "compiler/Codegen/DeviceTargets.h"
#include "compiler/Driver/BatchChoice.h"
#include "compiler/Driver/Budget.h"
#include "compiler/Driver/ExplainPasses.h"
#include "compiler/Driver/Offload.h"
#include "compiler/Driver/Session.h"
#include "compiler/Driver/VerifyKernels.h"
#include "compiler/Driver/VerifyPasses.h"
#include "compiler/Report/Report.h"
#include "compiler/Report/ReportPage.h"
#include "compiler/Support/Nesting.h"
#include "compiler/Support/OutputFile.h"
#include "runtime/Core/Print.h"
#include "runtime/Core/Sizes.h"
#include "runtime/Core/Version.h"
#include "runtime/Format/PlanFile.h"
#include "runtime/Format/PlanValidator.h"
#include "runtime/Format/Steps/LossRows.h"
#include "runtime/Memory/Planner.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include <chrono>
#include <unistd.h>

using namespace mlir;

namespace ztc::driver {

const char *versionText() {
  return ZTC_VERSION;
}

void show(llvm::raw_ostream &to, function_ref<void(llvm::raw_ostream &)> print) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  print(stream);
  to << printable(text, std::string::npos);
  to.flush();
}

int fail(const std::string &message, int status) {
  llvm::errs() << "ztc: " << printable(message) << "\n";
  return status;
}

std::string unusable(const CompileOptions &o) {
  if (o.diskMemory && o.disk.empty())
    return "--disk-mem is the room in a folder: name that with --disk=DIR";
  if (o.offloadUpdate == UpdatePlace::Host && !o.hostMemory)
    return "--offload-update=host updates what lies in the host's memory: open that with --host-mem=SIZE";
  if (o.offloadUpdate == UpdatePlace::Host && !hasHostTarget(o))
    return "--offload-update=host: the host's cores need kernels too: --target=host," + llvm::join(o.targets, ",");
  for (const std::string &target : o.targets)
    if (target != "host" && !llvm::is_contained(kHostTargets, target) && !isDeviceTarget(target))
      return "--target=" + target + ": this build generates code for host (x86-64-v3 and x86-64-v4), " +
             deviceTargetNames();
  if (o.precision != StoragePrecision::Fp8) {
    for (const char *option : {"fp8-gradients", "fp8-scaling"})
      if (o.given.count(option))
        return std::string("--") + option + " is an option of --precision=fp8, and this is " + wordOf(o.precision);
    return "";
  }
  if (o.fp8Scaling == Fp8Scaling::Delayed && o.updateTime == UpdateTime::InBackward)
    return "--fp8-scaling=delayed beside --update=in-backward: the first step is computed without an update to find "
           "its scales, and here the update is a part of it; take --fp8-scaling=dynamic";
  for (const std::string &target : o.targets)
    if (const DeviceTarget *device = findDeviceTarget(target); device && !(device->products & kFp8Products))
      return "--target=" + target + ": has no products in fp8 (" + device->devices.str() +
             "); sm_89 and later have, and the host computes them in fp32: --precision=bf16 is for " + target;
  if (o.quantize != FrozenFormat::Plain)
    return "--precision=fp8 beside --quantize=" + wordOf(o.quantize) +
           ": weights in fewer bits are multiplied in 16 bits; --precision=bf16 is for them";
  return {};
}

bool isPlanFile(const std::string &path) {
  const llvm::StringRef magic("ZTCPLAN\0", 8); // runtime/Format/PlanFile.h
  llvm::sys::fs::file_status status;
  if (llvm::sys::fs::status(path, status) || status.type() != llvm::sys::fs::file_type::regular_file)
    return false; // a pipe would wait
  auto begin = llvm::MemoryBuffer::getFileSlice(path, magic.size(), 0);
  return begin && (*begin)->getBuffer() == magic;
}

/// A plan where a model was expected: what reads it; "" for all other files.
static std::string planAsModel(const CompileOptions &o) {
  if (!o.from.empty() || !isPlanFile(o.input))
    return {};
  return o.input + ": is a plan that `ztc compile` made, not a model; read it with `ztc inspect " + o.input +
         "` (--memory, --kernels), run it with `ztc-run " + o.input + "`";
}

std::string unwritable(const std::string &path) {
  if (path.empty())
    return {};
  if (path == "-")
    return "cannot write -: only IR goes to standard output (compile --to=PHASE); name a file, one of that name as ./-";
  if (llvm::sys::fs::is_directory(path))
    return "cannot write " + path + ": it is a folder; name a file in it";
  llvm::StringRef folder = llvm::sys::path::parent_path(path);
  if (!folder.empty() && !llvm::sys::fs::is_directory(folder))
    return "cannot write " + path + ": folder " + folder.str() + " does not exist; create it or choose another path";
  llvm::sys::fs::file_status status;
  if (!llvm::sys::fs::status(path, status) && status.type() != llvm::sys::fs::file_type::regular_file)
    return {}; // a device or a pipe
  llvm::SmallString<256> tried;
  if (std::error_code error = llvm::sys::fs::createUniqueFile(path + ".tmp-%%%%%%%%", tried))
    return "cannot write " + path + ": " + error.message() + "; name a place where you may write";
  (void)llvm::sys::fs::remove(tried);
  return {};
}

/// Writes `text` to the output file, or to standard output where there is none.
static int writeText(const std::string &path, function_ref<void(llvm::raw_ostream &)> print) {
  if (path.empty()) {
    print(llvm::outs());
    return 0;
  }
  std::string text;
  llvm::raw_string_ostream stream(text);
  print(stream);
  const std::string problem = writeOutput(path, text);
  return problem.empty() ? 0 : fail(problem);
}

/// Reads the file of --precision-policy into `o`; what is wrong with it, or "".
static std::string readPolicy(CompileOptions &o) {
  if (o.precisionPolicy.empty())
    return {};
  std::string place = "--precision-policy=" + o.precisionPolicy + ": ";
  auto buffer = llvm::MemoryBuffer::getFile(o.precisionPolicy);
  if (!buffer)
    return place + buffer.getError().message();
  if (nestingOf((*buffer)->getBuffer()) > kDeepestText)
    return place + "is of impossible depth";
  llvm::Expected<llvm::json::Value> json = llvm::json::parse((*buffer)->getBuffer());
  if (!json)
    return place + "is not JSON: " + llvm::toString(json.takeError());
  const bool isFp8 = o.precision == StoragePrecision::Fp8;
  const std::string shape = std::string("expected {\"fp32\": [\"regular expression\", ...]") +
                            (isFp8 ? ", \"bf16\": [...]}, or one of the two" : "}");
  const llvm::json::Object *object = json->getAsObject();
  if (!object || object->empty())
    return place + shape;
  for (const auto &[type, list] : *object) {
    const llvm::json::Array *patterns = list.getAsArray();
    if (!patterns || (type != "fp32" && !(isFp8 && type == "bf16")))
      return place + shape;
    for (const llvm::json::Value &pattern : *patterns) {
      std::optional<StringRef> text = pattern.getAsString();
      if (!text)
        return place + shape;
      (type == "fp32" ? o.keptFp32 : o.keptBf16).push_back(text->str());
    }
  }
  return o.keptFp32.empty() && o.keptBf16.empty() ? place + "names no layer" : std::string();
}

/// What this machine has; 0 where it does not say.
static uint64_t physicalBytes() {
  const long pages = sysconf(_SC_PHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
  return pages > 0 && bytes > 0 ? uint64_t(pages) * uint64_t(bytes) : 0;
}

/// A plan for hosts alone that this one cannot run.
static void noteTooLarge(const CompileOptions &options, uint64_t neededBytes) {
  const uint64_t here = physicalBytes();
  const bool isForHosts = llvm::none_of(options.targets, [](const std::string &target) { return isGpuTarget(target); });
  if (isForHosts && here && neededBytes > here)
    llvm::errs()
        << "ztc: note: a rank needs " << formatSize(neededBytes) << ", this machine has " << formatSize(here)
        << ": it cannot run the plan; a smaller --batch or --seq, --mem=SIZE, or --zero=3 on more ranks needs less\n";
}

/// Whether a product of `step` has f32 factors.
static bool hasWideProduct(const plan::Step &step) {
  const std::optional<LossChunks> loss = lossChunks(step);
  return (step.has_gemm() && step.gemm().type_a() == plan::F32) ||
         (step.has_grouped_gemm() && step.grouped_gemm().type_a() == plan::F32) || (loss && loss->type == plan::F32);
}

/// --tf32 where no product has factors to round: few of a 16-bit plan have, as those inside linear attention.
static void noteNoWideProduct(const CompileOptions &options, const plan::Plan &plan) {
  if (options.tf32 && llvm::none_of(plan.programs(), [](const plan::Program &program) {
        return llvm::any_of(program.steps(), hasWideProduct);
      }))
    llvm::errs() << "ztc: note: --tf32 has no effect: no product of this plan has fp32 factors\n";
}

/// A sequence that nothing was held against.
static void noteUnknownLimit(const CompileOptions &options, const ImportReport &report) {
  if (options.given.count("seq") && options.from.empty() && !report.positionLimit)
    llvm::errs() << "ztc: note: how long a row of this model may be is not known (no config.json with "
                    "max_position_embeddings is beside it): --seq is taken as it is\n";
}

/// No choice of recomputation fits: by how much, and what would help.
static int failMissing(const CompileOptions &options, const RecomputeDecision &decision) {
  uint64_t needed = decision.chosen.peakBytes + budgetReserveBytes(options);
  fail("the step needs at least " + formatSize(needed) + " (" + std::to_string(needed) + " bytes), " +
       std::to_string(needed - options.memoryBudget) + " bytes more than --mem=" + formatSize(options.memoryBudget) +
       ", whatever is computed again" + (opensSpaces(options) ? " and moved off the device" : ""));
  printWhatWouldHelp(llvm::errs(), options);
  return 1;
}

int runCompile(const CompileOptions &given) {
  auto start = std::chrono::steady_clock::now();
  CompileOptions options = given;
  if (std::string what = readPolicy(options); !what.empty())
    return fail(what);
  if (std::string what = unusable(options); !what.empty())
    return fail(what, 2);
  if (options.output == "-" && !options.to.empty())
    options.output.clear(); // as MLIR's tools have it
  if (options.output.empty() && options.to.empty())
    return fail("compile needs -o PLAN (or --to=PHASE to look at the IR)", 2);
  if (std::string what = planAsModel(options); !what.empty())
    return fail(what);
  if (int status = 0; failed(chooseBatch(options, status)))
    return status;
  if (std::string what = unwritable(options.output); !what.empty())
    return fail(what);
  if (llvm::SmallString<256> path(options.disk); !path.empty() && !llvm::sys::fs::make_absolute(path))
    options.disk = path.str().str(); // a run may begin in another folder
  if (options.verify)
    if (int status = verifyPasses(options))
      return status;
  Session session(options);
  if (!session.isValid())
    return 2;
  Phase last = Phase::Plan;
  if (!options.to.empty()) {
    FailureOr<Phase> phase = parsePhase(options.to);
    if (failed(phase))
      return 2;
    last = *phase;
  }
  // Notes come before the error that a later phase may end with.
  const bool imports = succeeded(session.run(Phase::Import));
  if (imports)
    noteUnknownLimit(options, session.importReport());
  for (const std::string &note : session.importReport().notes)
    llvm::errs() << "ztc: " << printable(note) << "\n";
  LogicalResult done = success(imports);
  if (imports && options.verify && options.to.empty()) {
    done = session.run(Phase::Assign);
    if (succeeded(done) && !realKernelsHold(session))
      return session.isValid() ? 1 : 2;
  }
  done = success(succeeded(done) && succeeded(session.run(last)));
  const std::optional<RecomputeDecision> &decision = session.decision();
  if (decision)
    report::printDecision(decision->fits && options.to.empty() ? llvm::outs() : llvm::errs(), *decision,
                          options.memoryBudget, budgetReserveBytes(options));
  if (decision && !decision->fits)
    return failMissing(options, *decision);
  if (failed(done))
    return session.isValid() ? 1 : 2;
  options = session.options(); // with what IR of --from says
  // IR has standard output for itself.
  if (const PassExplainer *explanation = session.explanation())
    explanation->print(options.to.empty() || !options.output.empty() ? llvm::outs() : llvm::errs());
  if (!options.to.empty())
    return writeText(options.output, [&](llvm::raw_ostream &out) {
      OpPrintingFlags flags;
      flags.enableDebugInfo(true, false);
      session.module()->print(out, flags);
      out << "\n";
    });

  FailureOr<plan::Plan> plan = session.takePlan(/*withKernels=*/true);
  if (failed(plan) || failed(session.chooseLives(*plan)))
    return 1;
  const PlanShape shape = shapeOf(options, options.gpus.front(), options.targets);
  StatusOr<MemoryPlan> memory = planMemory(*plan, shape);
  if (!memory.isOk())
    return fail(memory.status().message());
  const uint64_t reserve = reserveBytes(options, shape);
  uint64_t needed = memory->arenaBytes + reserve;
  if (options.memoryBudget && needed > options.memoryBudget)
    return fail("the step needs " + formatSize(needed) + " (arena " + formatSize(memory->arenaBytes) + ", reserve " +
                formatSize(reserve) + "), " + std::to_string(needed - options.memoryBudget) +
                " bytes more than --mem=" + formatSize(options.memoryBudget) + "; --recompute=auto finds what fits");
  const TemporaryOutput temporary(options.output);
  if (Status written = writePlanFile(*plan, options.output); !written.isOk())
    return fail(written.message());
  noteTooLarge(options, needed);
  noteNoWideProduct(options, *plan);
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  show(llvm::outs(), [&](llvm::raw_ostream &out) {
    report::printCompileSummary(out, *plan, *memory, options.output, shape, seconds);
  });
  return 0;
}

/// A row per number of ranks, and a part of the page where there is to be one, of the module as it is before phase
/// `shard`; --recompute=auto decides for each row.
static LogicalResult addRows(Session &session, unsigned stage, report::MemoryTable &table, bool explain,
                             llvm::json::Array *pages) {
  const CompileOptions options = session.options();
  if (failed(session.run(Phase::Shard)) || failed(session.chooseOffload()))
    return failure();
  StepProbe probe = session.probe();
  // Without a search the phases run with their verifiers, once.
  ProbedPlan same;
  if (!session.isSearching()) {
    if (failed(session.run(Phase::Recompute)))
      return failure();
    same.againFlops = recomputeFlops(session.module());
    if (failed(session.run(Phase::Assign)))
      return failure();
    FailureOr<plan::Plan> plan = session.takePlan(/*withKernels=*/false);
    if (failed(plan))
      return failure();
    same.plan = std::move(*plan);
  }
  for (unsigned world : options.gpus) {
    PlanShape shape = shapeOf(options, world, options.targets);
    const ProbedPlan *found = &same;
    std::optional<RecomputeDecision> decision;
    if (session.isSearching()) {
      FailureOr<RecomputeDecision> decided = session.decide(probe, shape);
      if (failed(decided))
        return failure();
      FailureOr<const ProbedPlan *> chosen = probe.plan(decided->choice);
      if (failed(chosen))
        return failure();
      decision = std::move(*decided);
      found = *chosen;
    }
    ProbedPlan probed = *found;
    if (failed(session.chooseLives(probed.plan, shape)))
      return failure();
    StatusOr<MemoryPlan> memory = planMemory(probed.plan, shape);
    if (!memory.isOk()) {
      fail(memory.status().message());
      return failure();
    }
    table.add(probed, shape, stage, *memory, reserveBytes(options, shape), decision, explain);
    if (pages)
      pages->push_back(report::pagePlan(probed.plan, shape, *memory,
                                        "ZeRO-" + std::to_string(stage) + " on " + std::to_string(world) +
                                            (world == 1 ? " rank" : " ranks")));
  }
  return success();
}

int runMemory(const CompileOptions &given, const ReportOptions &report) {
  CompileOptions options = given;
  if (std::string what = readPolicy(options); !what.empty())
    return fail(what);
  if (std::string what = unusable(options); !what.empty())
    return fail(what, 2);
  if (std::string what = planAsModel(options); !what.empty())
    return fail(what);
  if (int status = 0; failed(chooseBatch(options, status)))
    return status;
  if (std::string what = unwritable(report.html); !what.empty())
    return fail(what);
  // Import and differentiation are the same for every stage.
  Session session(options);
  if (!session.isValid())
    return 2;
  FailureOr<Phase> shared = options.from.empty() ? FailureOr<Phase>(Phase::Backward) : parsePhase(options.from);
  if (failed(shared))
    return 2;
  if (failed(session.run(*shared)))
    return session.isValid() ? 1 : 2;
  options = session.options(); // with what IR of --from says
  std::vector<unsigned> stages = options.stages.empty() ? std::vector<unsigned>{options.zero} : options.stages;
  Session::Snapshot before = session.snapshot();
  report::MemoryTable table(options.memoryBudget);
  llvm::json::Array pages;
  for (unsigned stage : stages) {
    CompileOptions one = options;
    one.zero = stage;
    session.restore(before, one);
    if (failed(addRows(session, stage, table, report.explain, report.html.empty() ? nullptr : &pages)))
      return 1;
  }
  show(llvm::outs(), [&](llvm::raw_ostream &out) { report.json ? table.printJson(out) : table.printText(out); });
  if (report.html.empty())
    return 0;
  return writeText(report.html, [&](llvm::raw_ostream &out) {
    report::printPage(out, "ztc memory: " + options.input, "What each rank will need, before the run.", {},
                      std::move(pages));
  });
}

int runCheck(const CompileOptions &options, const ReportOptions &form) {
  if (std::string what = planAsModel(options); !what.empty())
    return fail(what);
  Session session(options);
  if (!session.isValid())
    return 2;
  Session::Messages messages;
  session.collect(messages);
  // All of a compilation but the file: what `ztc compile` refuses, this does too.
  report::CheckOutcome outcome;
  outcome.imports = succeeded(session.run(Phase::Import));
  outcome.trains = outcome.imports && succeeded(session.run(Phase::Backward));
  outcome.compiles = outcome.trains && succeeded(session.run(Phase::Plan));
  outcome.errors = messages.errors;
  outcome.remarks = messages.others;
  if (!outcome.compiles && outcome.errors.empty())
    outcome.errors.push_back("no reason was given");
  if (std::optional<Phase> failed = session.failedPhase())
    for (const PhaseInfo &info : allPhases())
      if (info.phase == *failed)
        outcome.failedPhase = info.name;
  show(llvm::outs(), [&](llvm::raw_ostream &out) {
    form.json ? report::printCheckJson(out, session.importReport(), outcome)
              : report::printCheck(out, session.importReport(), outcome);
  });
  for (const std::string &error : outcome.errors) // the last lines
    llvm::errs() << "error: " << printable(error) << "\n";
  return outcome.compiles ? 0 : 1;
}

static std::vector<std::string> targetsOf(const plan::Plan &plan) {
  std::vector<std::string> targets;
  for (const plan::Image &image : plan.images())
    targets.push_back(image.target());
  return targets;
}

int runInspect(const CompileOptions &options, const ReportOptions &report) {
  StatusOr<LoadedPlan> loaded = readPlanFile(options.input);
  if (!loaded.isOk())
    return fail(loaded.status().message());
  PlanShape shape = shapeOf(options, options.gpus.front(), targetsOf(loaded->plan));
  StatusOr<MemoryPlan> memory = planMemory(loaded->plan, shape);
  if (!memory.isOk())
    return fail(memory.status().message());
  // That of the compilation, where none is named here.
  if (const auto gpu = loaded->plan.options().find("gpu");
      options.gpuModel.empty() && gpu != loaded->plan.options().end())
    useGpuModel(findGpuModel(gpu->second));
  show(llvm::outs(), [&](llvm::raw_ostream &out) {
    if (report.json)
      report::printPlanJson(out, *loaded, shape, *memory);
    else if (report.memory)
      report::printPlanMemory(out, loaded->plan, *memory);
    else if (report.kernels)
      report::printPlanKernels(out, loaded->plan, shape, *memory,
                               report.kernelOrder == "flops" ? report::KernelOrder::Flops : report::KernelOrder::Bytes);
    else if (report.time)
      report::printPlanTime(out, loaded->plan, shape, *memory);
    else
      report::printPlanText(out, *loaded, shape, *memory);
  });
  return 0;
}

int runDiff(const CompileOptions &options, const std::string &a, const std::string &b) {
  constexpr int kTrouble = 2; // 1 says that the plans differ, as of diff(1)
  StatusOr<LoadedPlan> one = readPlanFile(a), two = readPlanFile(b);
  if (!one.isOk())
    return fail(one.status().message(), kTrouble);
  if (!two.isOk())
    return fail(two.status().message(), kTrouble);
  StatusOr<bool> differ = false;
  show(llvm::outs(), [&](llvm::raw_ostream &out) {
    differ = report::printPlanDiff(out, *one, *two, shapeOf(options, options.gpus.front(), targetsOf(two->plan)));
  });
  llvm::outs().flush();
  if (llvm::outs().has_error())
    return kTrouble;
  return differ.isOk() ? *differ : fail(differ.status().message(), kTrouble);
}

} // namespace ztc::driver
