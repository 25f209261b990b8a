// ztc: the compiler's command line. The only file here that throws and catches (CLI11); everything else returns
// results.
#include "compiler/Analysis/GpuModels.h"
#include "compiler/Analysis/LinksInUse.h"
#include "compiler/Driver/CommandLine.h"
#include "compiler/Driver/Commands.h"
#include "compiler/Driver/Pipeline.h"
#include "compiler/Driver/UnknownWords.h"
#include "compiler/Driver/UsedOptions.h"
#include "compiler/Support/EndBySignal.h"
#include "frontends/huggingface/Folder.h"
#include "runtime/Core/Numbers.h"
#include "runtime/Core/Sizes.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/raw_ostream.h"
#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <iostream>
#include <new>
#include <stdexcept>

using namespace ztc;
using namespace ztc::driver;

namespace {

std::string variable(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

/// What the environment says to the command line.
Environment environment() {
  const std::string home = variable("HOME"), cache = variable("XDG_CACHE_HOME");
  Environment found;
  found.cuda.driver = variable("ZTC_LIBCUDA");
  found.cuda.standIns = variable("ZTC_STAND_INS");
  found.cuda.visibleDevices = variable("CUDA_VISIBLE_DEVICES");
  found.kernelCache = variable("ZTC_KERNEL_CACHE");
  if (!cache.empty() || !home.empty())
    found.kept = (cache.empty() ? home + "/.cache" : cache) + "/ztc";
  return found;
}

int usageError(const std::string &what) {
  std::cerr << "ztc: " << what << "\n";
  return 2;
}

int run(int argc, char **argv, CompileOptions o) {
  CLI::App app{"ztc compiles a language model, a Hugging Face folder or an ONNX graph, into a complete, "
               "memory-planned training step.",
               "ztc"};
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string("ztc ") + versionText());
  ReportOptions r;
  std::string second;

  CLI::App *compile = app.add_subcommand("compile", "compile a model into a plan");
  addModelOptions(*compile, o);
  compile->add_option("-o,--output", o.output, "the plan file")->type_name("PLAN");
  addWhole(*compile, "--zero", o.zero, "ZeRO stage", 0, 3)->group("Ranks");
  addWhole(*compile, "--gpus", o.gpus, "number of ranks, for the report and the budget", 1, 1 << 20)
      ->delimiter(',')
      ->group("Ranks");
  compile
      ->add_option("--kernel-cache", o.kernelCache,
                   "folder that keeps machine code of kernels between compilations, or none; default: "
                   "ZTC_KERNEL_CACHE, else ztc/kernels in XDG_CACHE_HOME or ~/.cache")
      ->type_name("DIR")
      ->group("Targets");
  compile
      ->add_flag("--verify", o.verify,
                 "check that each pass keeps loss, gradients and weights on a small form of the model, and each kernel "
                 "at its real size")
      ->group("Passes and IR");
  compile
      ->add_flag("--explain-passes", o.explainPasses,
                 "print what each phase and each pass of a plugin changes: memory, traffic, FLOPs, launches, time")
      ->group("Passes and IR");
  compile->add_option("--to", o.to, "stop after this phase and print the IR (to -o, otherwise to standard output)")
      ->type_name("PHASE")
      ->group("Passes and IR");

  CLI::App *memory =
      app.add_subcommand("memory", "print the memory that each rank needs, to the byte, without compiling kernels");
  addModelOptions(*memory, o);
  addWhole(*memory, "--zero", o.stages, "ZeRO stages", 0, 3)->delimiter(',')->group("Ranks");
  addWhole(*memory, "--gpus", o.gpus, "numbers of ranks", 1, 1 << 20)->delimiter(',')->group("Ranks");
  memory->add_flag("--json", r.json, "machine-readable output");
  memory->add_option("--html", r.html, "write a page with memory over time and the tensors at the peak")
      ->type_name("FILE");
  memory->add_flag("--explain", r.explain, "attribute the bytes at the peak to tensors");

  TrainingRequest t;
  CLI::App *plan = addPlan(app, o, t, r);

  CLI::App *check = app.add_subcommand(
      "check", "print what each layer became, what lacks a gradient, which weights and ties were recognised");
  addModelOptions(*check, o);
  check->add_flag("--json", r.json, "machine-readable output");
  check->footer("Model types that are built from a Hugging Face folder: " + huggingface::familyNames() + ". " +
                check->get_footer());

  CLI::App *inspect = app.add_subcommand("inspect", "read a plan");
  inspect->add_option("plan", o.input, "the plan file")->required();
  inspect->add_flag("--text", r.text, "every step (the default)");
  inspect->add_flag("--memory", r.memory, "the arena, slot by slot");
  inspect->add_flag("--kernels", r.kernels, "kernels and library calls, with bytes and flops of a step");
  inspect->add_option("--sort", r.kernelOrder, "order of --kernels: bytes (the default) or flops")
      ->check(CLI::IsMember({"bytes", "flops"}));
  inspect->add_flag("--time", r.time, "time of a step by kind of work, as the cost model predicts it");
  inspect->add_flag("--json", r.json, "the whole plan without constants and code");
  addShape(*inspect, o);
  addGpu(*inspect, o, "GPU of --time, as in ztc plan; default: that of the compilation, otherwise an H100");

  CLI::App *diff = app.add_subcommand(
      "diff",
      "print what differs between two plans in memory, time, traffic and steps; exit status 0: nothing, 1: something, "
      "2: cannot tell");
  diff->add_option("a", o.input, "a plan file")->required();
  diff->add_option("b", second, "another plan file")->required();
  addShape(*diff, o);

  CLI::App *report = app.add_subcommand("report", "write a page about runs: curves, memory, kernels, communication");
  std::vector<std::string> reported;
  report->add_option("files", reported, "logs of --log-json, which are compared, and plans")
      ->required()
      ->type_name("RUN.jsonl... [PLAN]");
  report->add_option("-o,--output", o.output, "the page")->required()->type_name("FILE.html");

  ExportModelOptions e;
  CLI::App *exportModel = app.add_subcommand("export", "put trained weights back into an ONNX file");
  exportModel->add_option("model", o.input, "the ONNX file that was compiled")->required();
  exportModel->add_option("--weights", o.weights, "folder that ztc-run wrote: of --export, or a step of --save")
      ->required()
      ->type_name("DIR");
  exportModel->add_option("-o,--output", o.output, "the new ONNX file")->required()->type_name("FILE.onnx");
  exportModel
      ->add_option("--base", e.base,
                   "checkpoint that the graph was exported from (compile's --weights), which shows what the exporter "
                   "folded, joined and renamed; default: what the export's ztc_run.json names")
      ->type_name("DIR");
  addSize(*exportModel, "--external-data", e.inlineLimit,
          "largest file with weights inside (default 2GiB); above it they go to FILE.onnx.data. Weights that were in a "
          "second file stay there",
          /*needsSome=*/false);
  exportModel->add_flag("--merge", e.merge,
                        "merge an adapter (--weights is a PEFT folder) into the weights of --base; default: the model "
                        "that its adapter_config.json names");
  exportModel->add_flag("--overwrite", e.overwrite, "replace an existing output");
  exportModel->add_option("--batch", o.batch, "as in ztc compile, for a graph that fits this size alone")
      ->transform(kWhole)
      ->check(CLI::Range(1, 1 << 20));
  exportModel->add_option("--seq", o.seq, "as in ztc compile, for a graph that fits this length alone")
      ->transform(kWhole)
      ->check(CLI::Range(1, 1 << 24));
  exportModel->add_option("--freeze", o.freezePattern,
                          "as in ztc compile: tensors of the checkpoint that nothing in the graph stands for");
  exportModel->add_option("--input", o.inputRoles, "as in ztc compile")
      ->type_name("ROLE=NAME")
      ->allow_extra_args(false);

  if (argc > 1 && argv[1][0] != '-' && !isCommand(app, argv[1]))
    return usageError(unknownCommand(app, argv[1]));
  try {
    app.parse(argc, argv);
    o.gpusGiven = compile->count("--gpus") > 0;
  } catch (const CLI::ExtrasError &error) {
    for (const CLI::App *command : app.get_subcommands())
      return usageError(unknownOption(*command, argc, argv));
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const CLI::ParseError &error) {
    if (error.get_exit_code() == 0) // --help and --version, which CLI11 prints
      return app.exit(error);
    std::string what = error.what();
    std::replace(what.begin(), what.end(), '\n', ' ');
    const auto used = app.get_subcommands();
    return usageError(what + "; see ztc " + (used.empty() ? "" : used.front()->get_name() + " ") + "--help");
  }
  for (const CLI::App *command : app.get_subcommands())
    for (const CLI::Option *option : command->get_options())
      if (option->count() > 0) {
        if (std::ranges::count(option->results(), "") > 0)
          return usageError(option->get_name() + ": an empty word stands where a value is expected (a shell variable "
                                                 "that is not set?)");
        for (const std::string &name : option->get_lnames())
          o.given.insert(name);
      }
  const Environment outside = environment();
  for (CLI::App *command : {compile, memory})
    if (*command) {
      if (!o.given.count("target"))
        chooseTargets(o, outside);
      dropUnused(o);
      if (const std::string conflict = conflictOfOptions(o); !conflict.empty())
        return usageError(conflict);
    }
  if (*inspect && o.given.count("sort") && !r.kernels)
    std::cerr << "ztc: note: --sort has no effect without --kernels\n";
  const bool namesNoGpu = memory->count("--gpus") > 0 && memory->count("--target") == 0 && o.targets.size() == 1;
  if (namesNoGpu && memory->count("--threads") == 0)
    std::cerr << "ztc: no GPU is here and none was named: this is the memory of CPU ranks; --target=sm_90a (H100, "
                 "H200), sm_80 (A100) or sm_100a (B200) tells what a GPU will need\n";
  if (!outside.kept.empty()) {
    if (StatusOr<std::vector<MeasuredLink>> links = readMeasuredLinks(outside.kept + "/links.json"); links.isOk())
      useMeasuredLinks(*links, o.disk);
    else
      std::cerr << "ztc: note: " << links.status().message() << "\n";
  }
  if (!o.gpuModel.empty())
    useGpuModel(findGpuModel(o.gpuModel));
  if (*compile || *check)
    if (const std::string refused = chooseKernelCache(o, outside); !refused.empty())
      return usageError(refused);
  if (*compile)
    return runCompile(o);
  if (*memory)
    return runMemory(o, r);
  if (*plan) {
    if (!outside.kept.empty())
      t.runsFile = outside.kept + "/plan-runs.jsonl";
    return runPlan(o, t, r);
  }
  if (*check)
    return runCheck(o, r);
  if (*inspect)
    return runInspect(o, r);
  if (*report)
    return runReport(reported, o.output);
  if (*exportModel)
    return runExport(o, e);
  return runDiff(o, o.input, second);
}

} // namespace

/// The exit status of a command that ended with `status`: what it printed has arrived, or that is an error too.
static int withOutput(int status) {
  llvm::outs().flush();
  std::string problem;
  if (llvm::outs().has_error())
    problem = llvm::outs().error().message();
  else if (!std::cout.flush()) // --help and --version
    problem = "it takes no text";
  // LLVM aborts the program if an error of its streams is never checked.
  llvm::outs().clear_error();
  llvm::errs().clear_error();
  if (problem.empty())
    return status;
  std::cerr << "ztc: cannot write to standard output: " << problem << "\n";
  return status == 0 ? 1 : status;
}

int main(int argc, char **argv) {
  // A file that was opened as 0, 1 or 2 would get what is printed.
  (void)llvm::sys::Process::FixupStandardFileDescriptors();
  // A file that reaches `ulimit -f` is an error of the write.
  std::signal(SIGXFSZ, SIG_IGN);
  cleanUpBySignal();
  llvm::install_fatal_error_handler(
      [](void *, const char *reason, bool) { std::cerr << "ztc: LLVM: " << reason << "\n"; });
  try {
    std::vector<char *> words;
    CompileOptions options;
    for (int i = 0; i < argc; ++i)
      if (std::string_view(argv[i]).starts_with("--mlir-"))
        options.mlirOptions.push_back(argv[i]);
      else
        words.push_back(argv[i]);
    return withOutput(run(int(words.size()), words.data(), std::move(options)));
  } catch (const std::bad_alloc &) {
    std::cerr << "ztc: the host's memory does not suffice\n";
  } catch (const std::length_error &) { // what the standard library says names one of its functions
    std::cerr << "ztc: the model has a size that nothing can hold\n";
  } catch (const std::exception &error) {
    std::cerr << "ztc: internal error: " << error.what() << "\n";
  }
  return 1;
}
