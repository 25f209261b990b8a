// ztc: the compiler's command line. The only file here that throws and catches (CLI11); everything else returns
// results.
#include "compiler/Analysis/GpuModels.h"
#include "compiler/Analysis/LinksInUse.h"
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

/// Accepts 78GiB, 512MiB, 1e9 and stores bytes; 0 stands for "not given" where the option `needsSome`.
void addSize(CLI::App &app, const std::string &name, uint64_t &target, const std::string &text, bool needsSome) {
  app.add_option_function<std::string>(
         name,
         [&target, name, needsSome](const std::string &value) {
           StatusOr<uint64_t> bytes = parseSize(value);
           if (!bytes.isOk())
             throw CLI::ValidationError(name, bytes.status().message());
           if (*bytes == 0 && needsSome)
             throw CLI::ValidationError(name, "more than 0, e.g. 78GiB");
           target = *bytes;
         },
         text)
      ->type_name("SIZE");
}

/// Whole numbers in decimal: CLI11 takes 010 for 8, and an empty text for 0.
// NOLINTNEXTLINE(bugprone-throwing-static-initialization): it throws where memory ends, before main has begun
const CLI::Validator kWhole(
    [](std::string &text) -> std::string {
      StatusOr<std::string> whole = wholeNumber(text);
      if (whole.isOk())
        text = *whole;
      return whole.isOk() ? "" : whole.status().message();
    },
    "");

/// One of an enum's words (Formats.h), which is parsed here and nowhere else; "" is not one to be given.
template <typename Enum>
CLI::Option *addChoice(CLI::App &app, const std::string &name, Enum &target, const std::string &text) {
  std::vector<std::string> words;
  for (std::string_view word : kWords<Enum>)
    if (!word.empty())
      words.emplace_back(word);
  return app
      .add_option_function<std::string>(
          name, [&target](const std::string &word) { target = fromWord<Enum>(word).value_or(target); }, text)
      ->check(CLI::IsMember(words));
}

void addGpu(CLI::App &app, CompileOptions &o, const char *what) {
  app.add_option("--gpu", o.gpuModel, what)->type_name("NAME")->check([](const std::string &name) {
    return findGpuModel(name) ? std::string() : "'" + name + "' is not known; known are " + gpuModelNames();
  });
}

/// Options that `compile` and `memory` share.
void addCommon(CLI::App &app, CompileOptions &o) {
  app.add_option("model", o.input, "the ONNX file, or a Hugging Face folder (IR text with --from)")->required();
  const CLI::Validator orAuto(
      [&o](std::string &text) {
        o.choosesBatch = text == "auto";
        text = o.choosesBatch ? "1" : text;
        return std::string();
      },
      "");
  app.add_option("--batch", o.batch, "micro-batch per rank; auto: the smallest that is nearly the fastest")
      ->transform(kWhole)
      ->transform(orAuto)
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--global-batch", o.globalBatch, "rows of a step over --gpus ranks: micro-steps follow from it")
      ->transform(kWhole)
      ->check(CLI::Range(1, 1 << 24));
  app.add_option("--seq", o.seq, "tokens per row")->transform(kWhole)->check(CLI::Range(1, 1 << 24));
  addChoice(app, "--precision", o.precision,
            "storage and compute types; fp8: as bf16, but products of the blocks read 8 bits with a scale a tensor");
  addChoice(app, "--fp8-gradients", o.fp8Gradients,
            "of fp8: the format of cotangents, e5m2 (the default: more range) or e4m3 (more digits)");
  addChoice(app, "--fp8-scaling", o.fp8Scaling,
            "of fp8: scales of activations and cotangents by their own absolute maxima, dynamic (the default), or by "
            "those of the step before, delayed (faster: kernels write codes at once)");
  app.add_flag("--tf32", o.tf32,
               "products of fp32 factors on GPUs round them to TF32 (10 bits after the leading one): all of "
               "--precision=fp32, else what stays fp32, as inside linear attention");
  app.add_option("--precision-policy", o.precisionPolicy,
                 "layers that stay fp32: {\"fp32\": [regular expressions over checkpoint names and module paths]}; of "
                 "fp8 also layers whose products stay bf16: {\"bf16\": [...]}")
      ->type_name("FILE");
  app.add_option("--optimizer", o.optimizer,
                 "what updates the weights: adamw, lion, sgd, muon (matrices of blocks; the rest by "
                 "adamw), or a plugin's optimizer")
      ->type_name("NAME");
  addChoice(app, "--adjust-lr-fn", o.adjustLrFn,
            "of muon: how the shape of a matrix changes its learning rate: match_rms_adamw (as large as adamw's "
            "changes, so that one --lr fits both), or original");
  addChoice(app, "--optimizer-state", o.optimizerState,
            "type of the optimizer's states; int8: codes with a scale for each 256 elements, fp32 for embeddings and "
            "tensors of fewer than 4096 elements");
  addChoice(app, "--master", o.masters,
            "of weights in bf16: fp32, or none (4 bytes an element less; updates are rounded stochastically)");
  addChoice(app, "--update", o.updateTime,
            "after: when all gradients are there; in-backward: each bucket as soon as its gradient is, so that "
            "gradients never exist all at once (steps of one micro-step, no norm of all gradients)");
  app.add_option("--recompute", o.recompute,
                 "what to compute again instead of keeping: none, cheap, layer, auto, or a plugin's policy")
      ->type_name("NAME");
  app.add_option("--prefetch", o.prefetch, "ZeRO-3: buckets gathered ahead of their use; 0 gathers just in time")
      ->transform(kWhole)
      ->check(CLI::Range(0, 64));
  app.add_flag("--early-gathers", o.earlyGathers,
               "ZeRO-3: an update gathers what the next step needs before it computes anything, beside the updates of "
               "the other buckets; the first step of a run gathers for itself");
  addChoice(app, "--keep-gathered", o.keepGathered,
            "ZeRO-3: gathered parameters stay over micro-steps and from forward to backward: as many as fit --mem "
            "(auto), all, or none");
  addChoice(app, "--keep-fp8-weights", o.keepFp8Weights,
            "precision fp8: the codes of weights are made once in a step and kept over micro-steps and from forward to "
            "backward: as many as fit --mem (auto), all, or none");
  addSize(app, "--mem", o.memoryBudget, "device memory per rank, e.g. 78GiB", true);
  addSize(app, "--reserve", o.memoryReserve, "device memory outside the arena, per rank", false);
  app.add_option(
         "--loss-rows", o.lossRows,
         "rows of logits that a GPU works on at a time, at most; the default is all that fit --mem, or that the "
         "peak has room for. It orders the sums of the head's gradient")
      ->transform(kWhole)
      ->check(CLI::Range(1, 1 << 24));
  addSize(app, "--host-mem", o.hostMemory,
          "the host's memory per rank for what need not lie on the device: optimizer states, masters, parameters",
          true);
  app.add_option("--disk", o.disk, "folder for the same, in a file that a run makes there and that is gone at its end")
      ->type_name("DIR");
  addSize(app, "--disk-mem", o.diskMemory, "of that file per rank, at most", true);
  addChoice(app, "--offload-update", o.offloadUpdate,
            "who updates parameters whose states lie in the host's memory: its cores, the device, through which they "
            "stream, or who is faster (auto; on a CPU these are the same cores, and they stream)");
  app.add_option("--accumulate", o.accumulate, "micro-steps per optimizer step, for the report")
      ->transform(kWhole)
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--threads", o.threads, "report for a host with so many threads a rank")
      ->transform(kWhole)
      ->check(CLI::Range(1, 4096));
  app.add_option("--target", o.targets,
                 "host (both instruction sets), x86-64-v3, x86-64-v4, sm_80 to sm_121a, simt; the default is host "
                 "and the GPUs of this machine")
      ->delimiter(',');
  addGpu(app, o,
         "the GPU that prices what is computed again or moved, as ztc plan knows it: H100-80GB, L40S-48GB, ...");
  app.add_option("--save-onnx", o.saveOnnx, "of a folder: write the graph that was built from its config.json")
      ->type_name("FILE");
  app.add_option("--weights", o.weights, "Hugging Face folder or safetensors file");
  app.add_option("--input", o.inputRoles,
                 "which input (or output, for logits) of the graph is what, where it cannot be proven: tokens, "
                 "attention_mask, position_ids, past, labels, logits, ...; repeatable")
      ->type_name("ROLE=NAME")
      ->allow_extra_args(false);
  app.add_option(
         "--padding-token", o.paddingToken,
         "token whose lookups in the embedding get no gradient (PyTorch's padding_idx), or none; the default is "
         "what the exporter or config.json says")
      ->type_name("ID|none");
  app.add_option("--freeze", o.freezePattern, "regular expression over checkpoint names: not trained");
  app.add_option("--no-decay", o.noDecayPattern, "regular expression over checkpoint names: no weight decay");
  app.add_option("--lr-of", o.rates,
                 "a learning rate of their own for the parameters whose names match: the run's times FACTOR, as in "
                 "--lr-of=lora_B=16 (LoRA+); repeatable")
      ->type_name("REGEX=FACTOR")
      ->allow_extra_args(false);
  CLI::Option *adapter =
      app.add_option("--adapter", o.adapter,
                     "PEFT folder (adapter_config.json, tensors or none): the model is frozen, low-rank adapters are "
                     "trained")
          ->type_name("DIR");
  app.add_option("--lora", o.lora, "the same with a new adapter: r=16,alpha=32,targets=all-linear (or q_proj+v_proj)")
      ->type_name("KEY=VALUE,...")
      ->excludes(adapter);
  addChoice(app, "--quantize", o.quantize,
            "beside an adapter: store the frozen weights of linear modules, but for the head, in fewer bits, as "
            "bitsandbytes does: nf4 (QLoRA, 4.1 bits each), nf4_single (scales of blocks in f32, 4.5 bits) or int8 (a "
            "scale for each row); or mxfp4 (4.25 bits), stacks of experts too: of a folder that has weights in mxfp4, "
            "as gpt-oss, those alone, with the same numbers");
  app.add_flag(
      "--pack", o.pack,
      "rows hold several documents: attention stays within each, positions count from its first token, and rows "
      "are padded only where no other document fits");
  app.add_flag("--loss-weights", o.lossWeights,
               "take `loss_weights` from the data, beside labels: each target's loss is multiplied by its weight, and "
               "the mean is over the sum of the weights");
  app.add_flag(
      "--generate", o.generate,
      "add programs that generate text a row at a time, with keys and values kept in planned memory; of several "
      "prompts as many at a time as --batch says");
  app.add_option("--load-pass-plugin", o.plugins, "shared library with passes")->type_name("LIB");
  app.add_option(
         "--patterns", o.patterns,
         "rewrites without C++: a file of PDLL, or of the PDL dialect, followed by where they apply (after=import, "
         "before=fuse, after=loss) and what they keep (keeps=changes); repeatable")
      ->type_name("FILE[,after=PHASE]")
      ->allow_extra_args(false);
  app.add_option("--disable-pass", o.disabledPasses, "skip a pass")->type_name("NAME");
  app.add_option("--pass-option", o.passOptions, "an option of a pass, as in ztc-opt; repeatable")
      ->type_name("PASS.OPTION=VALUE")
      ->allow_extra_args(false);
  app.add_flag("--print-pipeline", o.printPipeline, "print the passes of each phase, as ztc-opt takes them");
  app.add_option("--dump-phases", o.dumpFolder, "write the IR after each phase into this folder")->type_name("DIR");
  app.add_option("--from", o.from, "the input is IR after this phase")->type_name("PHASE");
  app.add_option("--remarks", o.remarks, "print what the passes whose name matches say about what they did")
      ->type_name("REGEX");
  app.add_option("--remarks-file", o.remarksFile,
                 "the same as YAML, which opt-viewer reads; of all passes without --remarks")
      ->type_name("FILE");
  app.footer(
      "MLIR's options are taken too: --mlir-timing, --mlir-print-ir-after=PASS, --mlir-print-ir-after-change, ...");
}

/// "1", "8", "2..4" as 1, 2, 3, 4, 8.
std::vector<unsigned> rankNumbers(const std::vector<std::string> &words) {
  constexpr unsigned kMost = 1024;
  std::set<unsigned> numbers;
  for (const std::string &word : words) {
    const size_t dots = word.find("..");
    unsigned first = 0, last = 0;
    const auto read = [](const std::string &text, unsigned &number) {
      const StatusOr<std::string> whole = wholeNumber(text);
      return whole.isOk() && CLI::detail::lexical_cast(*whole, number) && number >= 1 && number <= kMost;
    };
    const bool isRange = dots != std::string::npos;
    if (!read(word.substr(0, dots), first) || !read(isRange ? word.substr(dots + 2) : word, last) || last < first)
      throw CLI::ValidationError("--gpus", "'" + word + "' is not a number from 1 to 1024, or two of them as 1..8");
    for (unsigned number = first; number <= last; ++number)
      numbers.insert(number);
  }
  return {numbers.begin(), numbers.end()};
}

/// `ztc plan`: what of a compilation a user may fix, and what is searched.
CLI::App *addPlan(CLI::App &app, CompileOptions &o, TrainingRequest &t, ReportOptions &r) {
  CLI::App *plan = app.add_subcommand("plan", "which ways of training a model fit a GPU: bytes, seconds, commands");
  plan->add_option("model", o.input, "the ONNX file, or a Hugging Face folder")->required();
  plan->add_option("--gpu", t.gpu, "H100-80GB, A100-40GB, RTX-4090-24GB, ..., or host")->required()->type_name("NAME");
  plan->add_option_function<std::vector<std::string>>(
          "--gpus", [&o](const std::vector<std::string> &words) { o.gpus = rankNumbers(words); },
          "numbers of ranks to look at: 1,2,8 or 1..8")
      ->delimiter(',')
      ->type_name("N,N..N");
  addChoice(*plan, "--method", t.method, "which way to train; auto: the first of full, lora, qlora that fits");
  plan->add_option("--zero", o.stages, "ZeRO stages to look at; the default is all")
      ->delimiter(',')
      ->transform(kWhole)
      ->check(CLI::Range(0, 3));
  plan->add_option("--seq", o.seq, "tokens per row")->transform(kWhole)->check(CLI::Range(1, 1 << 24));
  plan->add_option("--batch", o.batch, "micro-batch per rank; the default is the smallest that is nearly the fastest")
      ->transform(kWhole)
      ->check(CLI::Range(1, 1 << 20));
  plan->add_option("--global-batch", t.globalBatch, "rows of a step over all ranks and micro-steps")
      ->transform(kWhole)
      ->check(CLI::Range(1, 1 << 24));
  plan->add_option("--config", t.configs,
                   "Axolotl's YAML, DeepSpeed's ds_config.json or TrainingArguments as JSON: each field is listed as "
                   "taken, not needed, or not there; repeatable")
      ->type_name("FILE")
      ->allow_extra_args(false);
  plan->add_option(
          "--ignore", t.ignored,
          "a field of --config that ztc has nothing for, and that is left out with all that is in it; repeatable")
      ->type_name("FIELD")
      ->allow_extra_args(false);
  plan->add_option("--data", t.data, "files of the run, as ztc-run takes them: padding, steps and hours are said")
      ->type_name("FILE...");
  plan->add_option("--tokenizer", t.tokenizer, "of text among them; the default is the model's own")->type_name("DIR");
  plan->add_option("--token-bytes", t.tokenBytes, "bytes of a token in .bin files without a header")
      ->transform(kWhole)
      ->check(CLI::IsMember({2, 4}))
      ->type_name("2|4");
  plan->add_option("--epochs", t.epochs, "passes over the data")->check(CLI::Range(1e-6, 1e9));
  plan->add_flag("--pack", o.pack, "rows hold several documents, as in ztc compile");
  plan->add_option("--document-end", t.documentEnd, "with --pack: the token that ends each document of a .bin")
      ->type_name("ID");
  plan->add_option("--long", t.longDocuments, "with --pack: cut or drop documents longer than a row")
      ->check(CLI::IsMember({"cut", "drop"}))
      ->type_name("cut|drop");
  plan->add_option("--verify", t.verified,
                   "run so many of the best here for five steps: seconds predicted and measured")
      ->transform(kWhole)
      ->check(CLI::Range(1, 64));
  plan->add_flag("--longest", t.longest, "also the longest rows that fit with what is recommended");
  addSize(*plan, "--mem", o.memoryBudget, "memory of a rank instead of the GPU's own", true);
  addSize(*plan, "--reserve", o.memoryReserve, "of it, for the driver and its libraries", false);
  addSize(*plan, "--host-mem", o.hostMemory,
          "of the host's memory per rank, for rows where nothing fits on a GPU alone; the default is as much as they "
          "need, 0 forbids them",
          false);
  plan->add_option("--disk", o.disk, "folder for the same where the host's memory does not suffice")->type_name("DIR");
  addSize(*plan, "--disk-mem", o.diskMemory, "of that disk per rank, at most", true);
  plan->add_option("--threads", o.threads, "of a host: threads a rank")->transform(kWhole)->check(CLI::Range(1, 4096));
  addChoice(*plan, "--precision", o.precision, "storage and compute types");
  plan->add_option("--optimizer", o.optimizer, "what updates the weights: adamw, lion, sgd or muon")->type_name("NAME");
  addChoice(*plan, "--adjust-lr-fn", o.adjustLrFn, "of muon, as in ztc compile");
  plan->add_option("--weights", o.weights, "Hugging Face folder or safetensors file");
  plan->add_option("--input", o.inputRoles, "as in ztc compile")->type_name("ROLE=NAME")->allow_extra_args(false);
  plan->add_option("--padding-token", o.paddingToken, "as in ztc compile")->type_name("ID|none");
  plan->add_option("--freeze", o.freezePattern, "as in ztc compile");
  CLI::Option *adapter = plan->add_option("--adapter", o.adapter, "of lora and qlora: a PEFT folder")->type_name("DIR");
  plan->add_option("--lora", o.lora, "of lora and qlora: the default is r=16,alpha=32,targets=all-linear")
      ->type_name("KEY=VALUE,...")
      ->excludes(adapter);
  plan->add_flag("--json", r.json, "machine-readable output");
  return plan;
}

/// For which ranks a plan is laid out.
void addShape(CLI::App &app, CompileOptions &o) {
  app.add_option("--gpus", o.gpus, "world size to lay out for")->transform(kWhole)->check(CLI::Range(1, 1 << 20));
  app.add_option("--accumulate", o.accumulate, "micro-steps to lay out for")
      ->transform(kWhole)
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--threads", o.threads, "lay out for a host with so many threads a rank")
      ->transform(kWhole)
      ->check(CLI::Range(1, 4096));
}

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
  addCommon(*compile, o);
  compile->add_option("-o,--output", o.output, "the plan file")->type_name("PLAN");
  compile->add_flag("--verify", o.verify,
                    "hold each pass to what it keeps on a small form of the model (loss, gradients, weights), and each "
                    "kernel at its real size");
  compile->add_flag("--explain-passes", o.explainPasses,
                    "print what each phase and each pass of a plugin changes: memory, traffic, FLOPs, launches, time");
  compile->add_option("--zero", o.zero, "ZeRO stage")->transform(kWhole)->check(CLI::Range(0, 3));
  compile->add_option("--gpus", o.gpus, "world size, for the report and the budget")
      ->delimiter(',')
      ->transform(kWhole)
      ->check(CLI::Range(1, 1 << 20));
  compile
      ->add_option("--kernel-cache", o.kernelCache,
                   "the folder that keeps kernels' machine code between compilations, or none; the default is "
                   "ZTC_KERNEL_CACHE, else ztc/kernels in XDG_CACHE_HOME or ~/.cache")
      ->type_name("DIR");
  compile->add_option("--to", o.to, "stop after this phase and print the IR (to -o, else to standard output)")
      ->type_name("PHASE");

  CLI::App *memory = app.add_subcommand("memory", "what each rank will need, to the byte, without compiling kernels");
  addCommon(*memory, o);
  memory->add_option("--zero", o.stages, "ZeRO stages")->delimiter(',')->transform(kWhole)->check(CLI::Range(0, 3));
  memory->add_option("--gpus", o.gpus, "world sizes")->delimiter(',')->transform(kWhole)->check(CLI::Range(1, 1 << 20));
  memory->add_flag("--json", r.json, "machine-readable output");
  memory->add_option("--html", r.html, "write a page with the memory over time and the tensors at the peak")
      ->type_name("FILE");
  memory->add_flag("--explain", r.explain, "attribute the bytes at the peak to tensors");

  TrainingRequest t;
  CLI::App *plan = addPlan(app, o, t, r);

  CLI::App *check =
      app.add_subcommand("check", "what imports, what lacks a gradient, which weights and ties were recognised");
  addCommon(*check, o);
  check->add_flag("--json", r.json, "machine-readable output");
  check->footer("Model types that are built from a Hugging Face folder: " + huggingface::familyNames() + ". " +
                check->get_footer());

  CLI::App *inspect = app.add_subcommand("inspect", "read a plan");
  inspect->add_option("plan", o.input, "the plan file")->required();
  inspect->add_flag("--text", r.text, "every step (the default)");
  inspect->add_flag("--memory", r.memory, "the arena, slot by slot");
  inspect->add_flag("--kernels", r.kernels, "kernels and library calls, with bytes and flops of a step");
  inspect->add_option("--sort", r.kernelOrder, "of --kernels: by bytes (the default) or by flops")
      ->check(CLI::IsMember({"bytes", "flops"}));
  inspect->add_flag("--time", r.time, "what a step takes by kinds of work, by the cost model: no measurement");
  inspect->add_flag("--json", r.json, "the whole plan without constants and code");
  addShape(*inspect, o);
  addGpu(*inspect, o, "of --time: the GPU, as ztc plan knows it; the default is that of the compilation, else an H100");

  CLI::App *diff = app.add_subcommand(
      "diff",
      "what differs between two plans in memory, time, traffic and steps; ends with 0 where nothing does, 1 where "
      "something does, 2 where that cannot be told");
  diff->add_option("a", o.input, "a plan file")->required();
  diff->add_option("b", second, "another plan file")->required();
  addShape(*diff, o);

  CLI::App *report = app.add_subcommand("report", "a page about runs: curves, memory, kernels, communication");
  std::vector<std::string> reported;
  report->add_option("files", reported, "logs of --log-json, which are compared, and plans")
      ->required()
      ->type_name("RUN.jsonl... [PLAN]");
  report->add_option("-o,--output", o.output, "the page")->required()->type_name("FILE.html");

  ExportModelOptions e;
  CLI::App *exportModel = app.add_subcommand("export", "put trained weights back into the ONNX file");
  exportModel->add_option("model", o.input, "the ONNX file that was compiled")->required();
  exportModel->add_option("--weights", o.weights, "what ztc-run wrote: a folder of --export, or a step of --save")
      ->required()
      ->type_name("DIR");
  exportModel->add_option("-o,--output", o.output, "the new ONNX file")->required()->type_name("FILE.onnx");
  exportModel
      ->add_option("--base", e.base,
                   "the checkpoint that the graph was exported from (compile's --weights): tells what the exporter "
                   "folded, joined and renamed; by default what the export's ztc_run.json says")
      ->type_name("DIR");
  addSize(*exportModel, "--external-data", e.inlineLimit,
          "a file that would be larger has its weights in FILE.onnx.data; the default is 2GiB, and what was external "
          "stays so",
          /*needsSome=*/false);
  exportModel->add_flag("--merge", e.merge,
                        "--weights is an adapter (a PEFT folder): it is merged into the weights of --base, by default "
                        "the model that its adapter_config.json names");
  exportModel->add_flag("--overwrite", e.overwrite, "replace the output where it is there");
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
