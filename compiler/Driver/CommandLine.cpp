#include "compiler/Driver/CommandLine.h"
#include "compiler/Analysis/GpuModels.h"
#include "runtime/Core/Numbers.h"
#include "runtime/Core/Sizes.h"
#include <set>

namespace ztc::driver {

// NOLINTNEXTLINE(bugprone-throwing-static-initialization): it throws where memory ends, before main has begun
const CLI::Validator kWhole(
    [](std::string &text) -> std::string {
      StatusOr<std::string> whole = wholeNumber(text);
      if (whole.isOk())
        text = *whole;
      return whole.isOk() ? "" : whole.status().message();
    },
    "");

static constexpr int kMostBatch = 1 << 20, kMostRows = 1 << 24, kMostRanks = 1 << 20, kMostThreads = 4096;

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

void addGpu(CLI::App &app, CompileOptions &o, const char *what) {
  app.add_option("--gpu", o.gpuModel, what)->type_name("NAME")->check([](const std::string &name) {
    return findGpuModel(name) ? std::string() : "'" + name + "' is not known; known are " + gpuModelNames();
  });
}

/// The group of the options that follow, as --help prints them.
static void begin(CLI::App &app, const char *group) {
  app.option_defaults()->group(group);
}

static void addInputs(CLI::App &app, CompileOptions &o) {
  begin(app, "Model");
  app.add_option("model", o.input, "the ONNX file, or a Hugging Face folder (IR text with --from)")->required();
  app.add_option("--weights", o.weights, "Hugging Face folder or safetensors file with the weights");
  app.add_option("--save-onnx", o.saveOnnx, "write the graph that is built from a folder's config.json")
      ->type_name("FILE");
  app.add_option("--input", o.inputRoles,
                 "role of an input of the graph (or of the output, for logits) that ztc cannot prove by itself: "
                 "tokens, attention_mask, position_ids, past, labels, logits, ...; repeatable")
      ->type_name("ROLE=NAME")
      ->allow_extra_args(false);
  app.add_option("--padding-token", o.paddingToken,
                 "token whose embedding gets no gradient (PyTorch's padding_idx), or none; default: what the exporter "
                 "or config.json says")
      ->type_name("ID|none");
}

static void addRows(CLI::App &app, CompileOptions &o) {
  begin(app, "Batch and rows");
  const CLI::Validator orAuto(
      [&o](std::string &text) {
        o.choosesBatch = text == "auto";
        text = o.choosesBatch ? "1" : text;
        return std::string();
      },
      "");
  app.add_option("--batch", o.batch, "rows per micro-batch and rank; auto: the smallest that is nearly the fastest")
      ->transform(kWhole)
      ->transform(orAuto)
      ->check(CLI::Range(1, kMostBatch));
  addWhole(app, "--global-batch", o.globalBatch, "rows per step over all --gpus ranks; sets the number of micro-steps",
           1, kMostRows);
  addWhole(app, "--seq", o.seq, "tokens per row", 1, kMostRows);
  app.add_flag("--pack", o.pack,
               "several documents per row: attention stays within a document, positions count from its first token, "
               "and padding is left only where no other document fits");
  app.add_flag("--loss-weights", o.lossWeights,
               "read `loss_weights` from the data, beside labels: each target's loss is multiplied by its weight and "
               "divided by the sum of the weights");
  app.add_flag("--generate", o.generate,
               "add programs that generate text one row at a time, with a cache of keys and values in planned memory; "
               "--batch prompts at a time");
}

static void addPrecision(CLI::App &app, CompileOptions &o) {
  begin(app, "Precision");
  addChoice(app, "--precision", o.precision,
            "storage and compute types; fp8 is bf16 with 8-bit products in the blocks, one scale per tensor");
  app.add_option("--precision-policy", o.precisionPolicy,
                 "layers that stay fp32: {\"fp32\": [regular expressions over checkpoint names and module paths]}; "
                 "with fp8 also layers whose products stay bf16: {\"bf16\": [...]}")
      ->type_name("FILE");
  addChoice(app, "--fp8-gradients", o.fp8Gradients,
            "fp8: format of cotangents: e5m2 (default: more range) or e4m3 (more digits)");
  addChoice(app, "--fp8-scaling", o.fp8Scaling,
            "fp8: scale activations and cotangents by their own absolute maxima (dynamic, the default) or by those of "
            "the previous step (delayed: faster, since kernels write codes at once)");
  addChoice(app, "--keep-fp8-weights", o.keepFp8Weights,
            "fp8: make codes of weights once per step and keep them for the backward and over micro-steps: as many as "
            "fit --mem (auto), all, or none");
  app.add_flag("--tf32", o.tf32,
               "on GPUs, round factors of fp32 products to TF32 (10 explicit mantissa bits): every product with "
               "--precision=fp32, otherwise those that stay fp32, such as inside linear attention");
}

static void addTraining(CLI::App &app, CompileOptions &o) {
  begin(app, "Training");
  app.add_option("--optimizer", o.optimizer,
                 "adamw, lion, sgd, muon (matrices of blocks; adamw for the rest), or a plugin's optimizer")
      ->type_name("NAME");
  addChoice(app, "--optimizer-state", o.optimizerState,
            "type of the optimizer's states; int8: 8-bit codes with one scale per 256 elements (embeddings and tensors "
            "below 4096 elements stay fp32)");
  addChoice(app, "--master", o.masters,
            "masters of bf16 weights: fp32, or none (4 bytes per element less; updates are rounded stochastically)");
  addChoice(app, "--update", o.updateTime,
            "after: when all gradients are complete; in-backward: each bucket as soon as its gradient is complete, so "
            "that gradients never exist all at once (one micro-step per step, no norm of all gradients)");
  addChoice(app, "--adjust-lr-fn", o.adjustLrFn,
            "muon: learning rate by a matrix's shape: match_rms_adamw (changes as large as adamw's, so that one --lr "
            "fits both) or original");
  app.add_option("--freeze", o.freezePattern, "regular expression over checkpoint names: these are not trained");
  app.add_option("--no-decay", o.noDecayPattern, "regular expression over checkpoint names: these get no weight decay");
  app.add_option("--lr-of", o.rates,
                 "learning rate of the parameters whose names match, as a multiple of the run's: --lr-of=lora_B=16 "
                 "(LoRA+); repeatable")
      ->type_name("REGEX=FACTOR")
      ->allow_extra_args(false);
}

static void addAdapters(CLI::App &app, CompileOptions &o) {
  begin(app, "Adapters");
  CLI::Option *adapter = app.add_option("--adapter", o.adapter,
                                        "PEFT folder (adapter_config.json, with or without tensors): freeze the model "
                                        "and train low-rank adapters")
                             ->type_name("DIR");
  app.add_option("--lora", o.lora, "the same with a new adapter: r=16,alpha=32,targets=all-linear (or q_proj+v_proj)")
      ->type_name("KEY=VALUE,...")
      ->excludes(adapter);
  addChoice(app, "--quantize", o.quantize,
            "with an adapter: store frozen weights of linear modules, except the head, in fewer bits: nf4 (QLoRA, 4.1 "
            "bits per element), nf4_single (scales in f32, 4.5 bits) or int8 (one scale per row), as bitsandbytes "
            "does; or mxfp4 (4.25 bits; stacks of experts too). A folder that has weights in mxfp4, such as gpt-oss, "
            "keeps those alone, with the same numbers");
}

static void addMemory(CLI::App &app, CompileOptions &o) {
  begin(app, "Memory");
  addSize(app, "--mem", o.memoryBudget, "budget of device memory per rank, e.g. 78GiB", true);
  addSize(app, "--reserve", o.memoryReserve, "part of it that is outside the arena: driver and libraries", false);
  app.add_option("--recompute", o.recompute,
                 "what to compute again instead of keeping it: none, cheap, layer, auto, or a plugin's policy")
      ->type_name("NAME");
  addWhole(app, "--loss-rows", o.lossRows,
           "largest number of rows of logits that a GPU computes at a time; default: all that fit --mem, or that the "
           "peak has room for. The order of the sums in the head's gradient depends on it",
           1, kMostRows);
  addSize(app, "--host-mem", o.hostMemory,
          "host memory per rank for optimizer states, masters and parameters that do not fit on the device", true);
  app.add_option("--disk", o.disk, "folder for a file with the same, which a run makes and removes")->type_name("DIR");
  addSize(app, "--disk-mem", o.diskMemory, "largest size of that file per rank", true);
  addChoice(app, "--offload-update", o.offloadUpdate,
            "who updates parameters whose states are in host memory: the host's cores, the device (states stream "
            "through it), or whichever is faster (auto; on a CPU states stream)");
}

static void addRanks(CLI::App &app, CompileOptions &o) {
  begin(app, "Ranks");
  addWhole(app, "--accumulate", o.accumulate, "micro-steps per optimizer step, for the report and the budget", 1,
           kMostRanks);
  addWhole(app, "--prefetch", o.prefetch, "ZeRO-3: buckets gathered ahead of their use; 0 gathers just in time", 0, 64);
  app.add_flag("--early-gathers", o.earlyGathers,
               "ZeRO-3: an update first gathers what the next step needs, while other buckets are updated");
  addChoice(app, "--keep-gathered", o.keepGathered,
            "ZeRO-3: keep gathered parameters for the backward and over micro-steps: as many as fit --mem (auto), all, "
            "or none");
}

static void addTargets(CLI::App &app, CompileOptions &o) {
  begin(app, "Targets");
  app.add_option("--target", o.targets,
                 "host (both instruction sets), x86-64-v3, x86-64-v4, sm_80 to sm_121a, simt; default: host and the "
                 "GPUs of this machine")
      ->delimiter(',');
  addWhole(app, "--threads", o.threads, "threads per rank of the host that the report is for", 1, kMostThreads);
  addGpu(app, o, "GPU that recomputed and moved bytes are priced for, as in ztc plan: H100-80GB, L40S-48GB, ...");
}

static void addPasses(CLI::App &app, CompileOptions &o) {
  begin(app, "Passes and IR");
  app.add_option("--load-pass-plugin", o.plugins, "shared library with passes")->type_name("LIB");
  app.add_option("--patterns", o.patterns,
                 "rewrites without C++: a file of PDLL or of the PDL dialect, then where they apply (after=import, "
                 "before=fuse, after=loss) and what they keep (keeps=changes); repeatable")
      ->type_name("FILE[,after=PHASE]")
      ->allow_extra_args(false);
  app.add_option("--disable-pass", o.disabledPasses, "skip a pass")->type_name("NAME");
  app.add_option("--pass-option", o.passOptions, "option of a pass, as in ztc-opt; repeatable")
      ->type_name("PASS.OPTION=VALUE")
      ->allow_extra_args(false);
  app.add_flag("--print-pipeline", o.printPipeline, "print the passes of each phase, as ztc-opt takes them");
  app.add_option("--dump-phases", o.dumpFolder, "write the IR after each phase into this folder")->type_name("DIR");
  app.add_option("--from", o.from, "the input is IR after this phase")->type_name("PHASE");
  app.add_option("--remarks", o.remarks, "print the remarks of passes whose name matches")->type_name("REGEX");
  app.add_option("--remarks-file", o.remarksFile,
                 "write remarks as YAML for opt-viewer; without --remarks, of all passes")
      ->type_name("FILE");
}

void addModelOptions(CLI::App &app, CompileOptions &o) {
  for (const auto &add :
       {addInputs, addRows, addPrecision, addTraining, addAdapters, addMemory, addRanks, addTargets, addPasses})
    add(app, o);
  begin(app, "OPTIONS");
  app.footer("MLIR's options work too: --mlir-timing, --mlir-print-ir-after=PASS, --mlir-print-ir-after-change, ...");
}

void addShape(CLI::App &app, CompileOptions &o) {
  addWhole(app, "--gpus", o.gpus, "number of ranks to lay out for", 1, kMostRanks);
  addWhole(app, "--accumulate", o.accumulate, "micro-steps to lay out for", 1, kMostRanks);
  addWhole(app, "--threads", o.threads, "threads per rank of the host to lay out for", 1, kMostThreads);
}

/// "1", "8", "2..4" as 1, 2, 3, 4, 8.
static std::vector<unsigned> rankNumbers(const std::vector<std::string> &words) {
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

CLI::App *addPlan(CLI::App &app, CompileOptions &o, TrainingRequest &t, ReportOptions &r) {
  CLI::App *plan =
      app.add_subcommand("plan", "list the ways of training a model that fit a GPU: bytes, seconds, commands");
  plan->add_option("model", o.input, "the ONNX file, or a Hugging Face folder")->required();
  plan->add_option("--gpu", t.gpu, "H100-80GB, A100-40GB, RTX-4090-24GB, ..., or host")->required()->type_name("NAME");
  plan->add_option_function<std::vector<std::string>>(
          "--gpus", [&o](const std::vector<std::string> &words) { o.gpus = rankNumbers(words); },
          "numbers of ranks to try: 1,2,8 or 1..8")
      ->delimiter(',')
      ->type_name("N,N..N");
  addChoice(*plan, "--method", t.method, "full, lora or qlora; auto: the first of these that fits");
  plan->add_option("--zero", o.stages, "ZeRO stages to try; default: all")
      ->delimiter(',')
      ->transform(kWhole)
      ->check(CLI::Range(0, 3));
  plan->add_option("--seq", o.seq, "tokens per row")->transform(kWhole)->check(CLI::Range(1, 1 << 24));
  plan->add_option("--batch", o.batch,
                   "rows per micro-batch and rank; default: the smallest that is nearly the fastest")
      ->transform(kWhole)
      ->check(CLI::Range(1, 1 << 20));
  plan->add_option("--global-batch", t.globalBatch, "rows per step over all ranks and micro-steps")
      ->transform(kWhole)
      ->check(CLI::Range(1, 1 << 24));
  plan->add_option("--config", t.configs,
                   "Axolotl's YAML, DeepSpeed's ds_config.json or TrainingArguments as JSON: each field is listed as "
                   "taken, not needed, or not there; repeatable")
      ->type_name("FILE")
      ->allow_extra_args(false);
  plan->add_option("--ignore", t.ignored,
                   "field of --config to leave out, with all that is in it, since ztc has nothing for it; repeatable")
      ->type_name("FIELD")
      ->allow_extra_args(false);
  plan->add_option("--data", t.data, "files of the run, as ztc-run takes them: adds padding, steps and hours")
      ->type_name("FILE...");
  plan->add_option("--tokenizer", t.tokenizer, "tokenizer of text in --data; default: the model's own")
      ->type_name("DIR");
  plan->add_option("--token-bytes", t.tokenBytes, "bytes of a token in .bin files without a header")
      ->transform(kWhole)
      ->check(CLI::IsMember({2, 4}))
      ->type_name("2|4");
  plan->add_option("--epochs", t.epochs, "passes over the data")->check(CLI::Range(1e-6, 1e9));
  plan->add_flag("--pack", o.pack, "several documents per row, as in ztc compile");
  plan->add_option("--document-end", t.documentEnd, "with --pack: the token that ends each document of a .bin")
      ->type_name("ID");
  plan->add_option("--long", t.longDocuments, "with --pack: cut or drop documents longer than a row")
      ->check(CLI::IsMember({"cut", "drop"}))
      ->type_name("cut|drop");
  plan->add_option("--verify", t.verified,
                   "run this many of the fastest here for five steps, and print predicted and measured seconds")
      ->transform(kWhole)
      ->check(CLI::Range(1, 64));
  plan->add_flag("--longest", t.longest, "also print the longest rows that fit with what is recommended");
  addSize(*plan, "--mem", o.memoryBudget, "memory per rank, in place of the GPU's own", true);
  addSize(*plan, "--reserve", o.memoryReserve, "part of it for the driver and its libraries", false);
  addSize(*plan, "--host-mem", o.hostMemory,
          "host memory per rank for rows where nothing fits on a GPU alone; default: as much as they need, 0: none",
          false);
  plan->add_option("--disk", o.disk, "folder for a file with what host memory has no room for")->type_name("DIR");
  addSize(*plan, "--disk-mem", o.diskMemory, "largest size of that file per rank", true);
  plan->add_option("--threads", o.threads, "threads per rank, on a host")
      ->transform(kWhole)
      ->check(CLI::Range(1, 4096));
  addChoice(*plan, "--precision", o.precision, "storage and compute types");
  plan->add_option("--optimizer", o.optimizer, "adamw, lion, sgd or muon")->type_name("NAME");
  addChoice(*plan, "--adjust-lr-fn", o.adjustLrFn, "muon: as in ztc compile");
  plan->add_option("--weights", o.weights, "Hugging Face folder or safetensors file with the weights");
  plan->add_option("--input", o.inputRoles, "as in ztc compile")->type_name("ROLE=NAME")->allow_extra_args(false);
  plan->add_option("--padding-token", o.paddingToken, "as in ztc compile")->type_name("ID|none");
  plan->add_option("--freeze", o.freezePattern, "as in ztc compile");
  CLI::Option *adapter = plan->add_option("--adapter", o.adapter, "lora and qlora: a PEFT folder")->type_name("DIR");
  plan->add_option("--lora", o.lora, "lora and qlora: the new adapter; default: r=16,alpha=32,targets=all-linear")
      ->type_name("KEY=VALUE,...")
      ->excludes(adapter);
  plan->add_flag("--json", r.json, "machine-readable output");
  return plan;
}

} // namespace ztc::driver
