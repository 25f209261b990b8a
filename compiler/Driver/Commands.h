// What each subcommand of ztc does. Each returns the exit status: 0 done, 1 failed, 2 wrong usage.
#pragma once
#include "compiler/Driver/Options.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/raw_ostream.h"
#include <optional>
#include <string>
#include <vector>

namespace ztc::driver {

/// How reports are printed.
struct ReportOptions {
  bool json = false;
  bool explain = false;
  bool text = false;
  bool memory = false;
  bool kernels = false;
  bool time = false;
  std::string kernelOrder; ///< bytes or flops
  std::string html;        ///< file of a page with the memory over time
};

int runCompile(const CompileOptions &options);
int runMemory(const CompileOptions &options, const ReportOptions &report);
int runCheck(const CompileOptions &options, const ReportOptions &report);
int runInspect(const CompileOptions &options, const ReportOptions &report);
/// `options` say for which ranks; 1 where the plans differ.
int runDiff(const CompileOptions &options, const std::string &a, const std::string &b);

/// A page about logs of runs and plans, in `output`.
int runReport(const std::vector<std::string> &inputs, const std::string &output);

/// What `ztc export` is asked for; the model, its weights and the output stand in CompileOptions.
struct ExportModelOptions {
  std::string base;                         ///< the checkpoint that the graph was exported from
  uint64_t inlineLimit = uint64_t(2) << 30; ///< a larger file has its weights in a second one
  bool overwrite = false;
  bool merge = false; ///< the weights are an adapter's, a PEFT folder: it goes into those of `base`
};

/// The ONNX file `options.input` with the trained weights of `options.weights` in it, as `options.output`.
int runExport(const CompileOptions &options, const ExportModelOptions &form);

/// What `ztc plan` is asked for; model, sizes, ranks and stages stand in CompileOptions.
struct TrainingRequest {
  std::string gpu;                              ///< a name of compiler/Analysis/GpuModels.h, or host
  TrainingMethod method = TrainingMethod::Auto; ///< auto: all, and the first that fits is recommended
  uint64_t globalBatch = 0;                     ///< rows of a step over all ranks; 0: as many as are usual
  bool longest = false;                         ///< also how long rows may be
  std::vector<std::string> configs;             ///< files of other trainers: see TrainingConfig.h
  std::vector<std::string> ignored;    ///< fields of them that ztc has nothing for, and that are to be left out
  std::string runOptions;              ///< what they say to ztc-run
  std::vector<std::string> data;       ///< files that it is to be trained on: they say padding, steps and hours
  std::string tokenizer;               ///< of text among them; empty: the model's own, where its folder has one
  uint64_t tokenBytes = 0;             ///< of token files that do not say it; 0: not given
  std::optional<uint64_t> documentEnd; ///< of packed rows: the token that ends a document
  std::string longDocuments;           ///< of packed rows: cut or drop; empty: not given
  double epochs = 1;                   ///< passes over the data
  unsigned verified = 0;               ///< so many of the best are run here
  std::string runsFile;                ///< what runs of before have measured; empty: nothing is kept
};

/// A table of the ways to train a model that fit; 1 where none does.
int runPlan(const CompileOptions &options, const TrainingRequest &request, const ReportOptions &report);

/// What keeps a file from being written at `path`, seen before the work is done; "" where nothing does.
std::string unwritable(const std::string &path);
/// Targets that there are not, and what they cannot do: said at once, before any work; "" where all is well.
std::string unusable(const CompileOptions &options);
/// Whether a file begins as plans do.
bool isPlanFile(const std::string &path);

/// Prints "ztc: message" to stderr, as a terminal may show it; returns `status`.
int fail(const std::string &message, int status = 1);
/// What `print` writes, as a terminal may show it: names in files may hold anything.
void show(llvm::raw_ostream &to, llvm::function_ref<void(llvm::raw_ostream &)> print);

/// The version as it stands in plans and logs.
const char *versionText();

} // namespace ztc::driver
