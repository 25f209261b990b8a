// CLI11 reports by exceptions: they end in this file.
#include "runtime/Tools/CommandLine.h"
#include "runtime/Core/NearestName.h"
#include "runtime/Core/Numbers.h"
#include "runtime/Core/Sizes.h"
#include "runtime/Core/Version.h"
#include "runtime/Tools/ConfigFile.h"
#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <functional>
#include <istream>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <tuple>
#include <type_traits>

namespace ztc {

namespace {

template <typename T> struct Value {
  using Type = T;
};
template <typename T> struct Value<std::optional<T>> {
  using Type = T;
};
template <typename T> using ValueOf = Value<T>::Type;
template <typename T> constexpr bool isNumber = std::is_arithmetic_v<ValueOf<T>> && !std::is_same_v<ValueOf<T>, bool>;

/// Options that stand together in --help.
struct OptionGroup {
  CLI::App &app;
  const char *name;

  /// `value` is what the help says in place of the option's value.
  template <typename T> CLI::Option *option(const char *names, T &target, const char *value, const char *help) const {
    CLI::Option *added = app.add_option(names, target, help)->type_name(value)->group(name);
    if constexpr (isNumber<T>)
      added->transform(CLI::Validator(
          [](std::string &text) -> std::string {
            if constexpr (!std::is_floating_point_v<ValueOf<T>>) {
              const StatusOr<std::string> whole = wholeNumber(text);
              if (!whole.isOk())
                return whole.status().message();
              text = *whole;
              return "";
            }
            return checkReal(text).message();
          },
          ""));
    return added;
  }
  /// A number of bytes with its unit.
  CLI::Option *size(const char *names, std::optional<uint64_t> &target, const char *help) const {
    const auto parse = [&target, names](const std::string &value) {
      const StatusOr<uint64_t> bytes = parseSize(value);
      if (!bytes.isOk())
        throw CLI::ValidationError(names, bytes.status().message());
      target = *bytes;
    };
    return app.add_option_function<std::string>(names, parse, help)->type_name("SIZE")->group(name);
  }
  /// A whole number, or a share with a percent sign.
  CLI::Option *countOrShare(const char *names, uint64_t &count, std::optional<double> &share, const char *help) const {
    const auto parse = [&count, &share, names](const std::string &value) {
      const bool isShare = value.ends_with('%');
      const std::string number = isShare ? value.substr(0, value.size() - 1) : value;
      const Status real = isShare ? checkReal(number) : Status::ok();
      const StatusOr<std::string> whole = isShare ? StatusOr<std::string>(number) : wholeNumber(number);
      if (!real.isOk() || !whole.isOk())
        throw CLI::ValidationError(names, (real.isOk() ? whole.status() : real).message());
      share.reset();
      if (!isShare) {
        if (std::from_chars(whole->data(), whole->data() + whole->size(), count).ec != std::errc())
          throw CLI::ValidationError(names, number + " is too large");
        return;
      }
      share = std::stod(number) / 100;
      if (!(*share >= 0 && *share <= 1))
        throw CLI::ValidationError(names, "a share is 0% to 100%");
    };
    return app.add_option_function<std::string>(names, parse, help)->type_name("N|P%")->group(name);
  }
  /// A largest norm, with what it is the norm of.
  CLI::Option *clip(const char *names, OptimizerSettings &optimizer, const char *help) const {
    const auto parse = [&optimizer, names](const std::string &value) {
      const StatusOr<std::pair<ClipBy, double>> clip = parseClip(value);
      if (!clip.isOk())
        throw CLI::ValidationError(names, clip.status().message());
      std::tie(optimizer.clipBy, optimizer.clip) = *clip;
    };
    return app.add_option_function<std::string>(names, parse, help)->type_name("X|block|previous")->group(name);
  }
  /// A time with its unit, in seconds.
  CLI::Option *duration(const char *names, std::optional<double> &target, const char *help) const {
    const auto parse = [&target, names](const std::string &value) {
      const StatusOr<double> seconds = parseDuration(value);
      if (!seconds.isOk())
        throw CLI::ValidationError(names, seconds.status().message());
      target = *seconds;
    };
    return app.add_option_function<std::string>(names, parse, help)->type_name("TIME")->group(name);
  }
  template <typename T> CLI::Option *flag(const char *names, T &target, const char *help) const {
    return app.add_flag(names, target, help)->group(name);
  }
};

void addPlaceOptions(CLI::App &app, RunOptions &o) {
  const OptionGroup devices{app, "Devices"};
  devices.option("--gpus", o.gpus, "N", "GPUs of this host, one rank each");
  devices
      .option("--device", o.device, "NAME",
              "cpu (or host: the same) or cuda; default: all GPUs, or one CPU rank if there is none")
      ->check(CLI::IsMember({"cpu", "host", "cuda"}, CLI::ignore_case));
  devices.option("--ranks", o.ranks, "N",
                 "number of CPU ranks of this host (default 1, or what torchrun, Open MPI or Slurm started)");
  devices
      .option("--deterministic", o.deterministic, "yes|no",
              "no: cuDNN may add up attention's gradient in any order, which is faster; a repeated or resumed run then "
              "has other bits (default yes)")
      ->check(CLI::IsMember({"yes", "no"}));
  devices.option("--threads", o.threads, "T", "worker threads per rank (default: cores / ranks)");
  devices
      .option("--instruction-set", o.instructionSet, "SET",
              "widest instruction set to use, for example to repeat the bits of another machine: x86-64-v3 (AVX2), "
              "x86-64-v4 (AVX-512), avx512-bf16 (with VDPBF16PS) or amx-bf16 (with TDPBF16PS); default: the best that "
              "plan and processor have")
      ->check(CLI::IsMember({"x86-64-v3", "x86-64-v4", "avx512-bf16", "amx-bf16"}));
  devices.option("--nodes", o.nodes, "N", "number of hosts (default 1); start ztc-run on each with its --node-rank");
  devices.option("--node-rank", o.nodeRank, "I", "index of this host; rank 0 is on host 0");
  devices.option("--rendezvous", o.rendezvous, "HOST:PORT",
                 "address at which all hosts reach rank 0; it listens there only. To join, a host needs the plan, and "
                 "ZTC_RUN_SECRET if that is set");
  devices.option("--disk", o.disk, "DIR",
                 "folder for the file of a plan that keeps slots on a disk; the file is removed at the end (default: "
                 "as compiled)");
  devices.option("--timeout", o.timeoutSeconds, "SECONDS",
                 "seconds without progress after which a rank counts as hung (default 300)");
}

void addDataOptions(CLI::App &app, RunOptions &o) {
  const OptionGroup data{app, "Data"};
  data.option(
      "--data", o.data, "FILE...",
      "token files (llm.c, nanoGPT, Megatron), .safetensors with input_ids and labels, or text and .jsonl (`text`, "
      "or `prompt` and `completion`) with --tokenizer; without it: a trial run on random tokens");
  data.option(
      "--tokenizer", o.tokenizer, "DIR",
      "folder with the tokenizer.json for text in --data, --eval-data and --prompt; or bytes: one token per byte");
  data.option("--token-bytes", o.tokenBytes, "2|4", "bytes of a token in .bin files without a header (default 2)");
  data.flag("--pack", o.pack, "require a plan whose rows hold several documents (ztc compile --pack)");
  data.option("--long", o.longDocuments, "cut|drop",
              "packed rows: what to do with a document longer than a row (default: cut it into pieces)");
  data.option("--document-end", o.documentEnd, "ID",
              "packed rows: token that ends each document of a .bin, or of a text with --tokenizer=bytes");
  data.flag("--shuffle", o.shuffle, "shuffle the rows of each epoch by --seed; default: the order of the files");
  data.option("--seed", o.seed, "S", "seed of --shuffle, --init, --temperature and the trial's tokens (default 0)");
  data.option("--weights", o.weights, "DIR|FILE",
              "Hugging Face folder or safetensors file, in place of the weights that the plan names");
  data.option(
      "--adapter", o.adapter, "DIR",
      "PEFT folder with the tensors that the plan's adapter begins with; default: those that it was compiled with");
  data.option("--init", o.init, "normal:STD", "start from random weights, e.g. normal:0.02 (norms 1, biases 0)");
}

void addTrainingOptions(CLI::App &app, RunOptions &o, std::string &schedule) {
  const OptionGroup training{app, "Training"};
  training.option("--steps", o.steps, "N", "optimizer steps (default of a trial without data: 20)");
  training.option("--epochs", o.epochs, "E", "passes over the data, in place of --steps");
  training.option("--accumulate", o.accumulate, "M", "micro-batches per rank and step (default 1)");
  training.option("--lr", o.learningRate, "X",
                  "peak learning rate (default 3e-4; loaded weights: 2e-5, adapters: 2e-4)");
  training.option("--schedule", schedule, "NAME",
                  "cosine (default), linear, constant or wsd (full rate for 80 % of the steps, then linear decay)");
  training.countOrShare(
      "--warmup", o.warmup, o.warmupShare,
      "steps of linear warm-up, or a share of all steps, e.g. 3% (default 0; loaded weights and adapters: 3%)");
  training.option("--min-lr-ratio", o.minLrRatio, "R", "final learning rate as a share of the peak (default 0.1)");
  training.option("--beta1", o.optimizer.beta1, "X", "adamw (also beside muon) and lion (default 0.9)");
  training.option("--beta2", o.optimizer.beta2, "X", "adamw (default 0.95) and lion (0.99)");
  training.option("--epsilon", o.optimizer.epsilon, "X", "adamw (default 1e-8)");
  training.option("--momentum", o.optimizer.momentum, "X", "sgd (default 0.9) and muon (0.95)");
  training.flag("--nesterov", o.optimizer.nesterov, "sgd: Nesterov's momentum");
  training.option("--weight-decay", o.optimizer.weightDecay, "X", "default 0.1 (loaded weights, adapters and sgd: 0)");
  training.clip("--clip", o.optimizer,
                "largest gradient norm (default 1; 0: no clipping). Plans that update in the backward: 0, block[:X] "
                "(each bucket by its own norm) or previous[:X] (by the norm of the previous step)");
  training.option("--loss-scale", o.lossScale, "X", "fp16: initial loss scale");
  training.option("--skip-spikes", o.skipSpikes, "SIGMA",
                  "drop the update of a step whose gradient norm is more than SIGMA deviations above the mean of the "
                  "last 64 (6 is usual)");
  training.option("--stop-after", o.stopAfter, "K", "end after K steps of the schedule; save and export");
}

void addResultOptions(CLI::App &app, RunOptions &o) {
  const OptionGroup evaluation{app, "Evaluation"};
  evaluation.option(
      "--eval-data", o.evalData, "[NAME=]FILE...",
      "held-out data, read as --data is; files with the same NAME, and those without one, are evaluated together");
  evaluation.flag(
      "--eval-only", o.evalOnly,
      "evaluate --eval-data and --eval-choices, print loss, perplexity and accuracy, and end without training");
  evaluation.option("--eval-choices", o.evalChoices, "FILE",
                    ".jsonl of questions: `context`, `choices`, and `answer` (index of the right choice, from 0). acc "
                    "compares log-probabilities of the choices, acc_norm these per byte");
  evaluation.option("--eval-every", o.evalEvery, "N", "also evaluate every N steps, not only at the end");
  evaluation.option("--patience", o.patience, "N",
                    "end the run after N evaluations in a row that are not better than the best (of the data that "
                    "--keep-best names, otherwise the first)");
  const OptionGroup results{app, "Checkpoints and exports"};
  results.option("--save", o.save, "DIR", "folder for step-* checkpoints");
  results.option("--save-every", o.saveEvery, "N", "also save every N steps, not only at the end");
  results.duration("--save-period", o.savePeriodSeconds,
                   "also save after this much time, e.g. 10m (default 30m where --save-every is not given)");
  results.option("--keep", o.keep, "K", "keep only the newest K checkpoints of this run");
  results.flag("--keep-best{true}", o.keepBestOf,
               "save after each evaluation that is the best so far, and keep that checkpoint in addition to those of "
               "--keep; --keep-best=NAME: the best by this --eval-data, otherwise by the first");
  results.flag("--overwrite", o.overwrite,
               "replace what another run left in the folders of --save and --export and in the log; without it such a "
               "folder or file is refused");
  results.option("--resume", o.resume, "DIR", "continue from the newest complete checkpoint in DIR");
  results.option("--restarts", o.restarts, "N",
                 "after a lost rank, continue from the newest checkpoint of --save, at most N times: on the same "
                 "number of ranks, then on fewer that keep the global batch");
  results.option("--export", o.exportFolder, "DIR",
                 "Hugging Face folder to write at the end (default: PLAN-out, if there is no --save)");
  results.option("--export-dtype", o.exportDtype, "T", "fp32, bf16 or fp16 (default: the type that the weights had)")
      ->check(CLI::IsMember({"fp32", "bf16", "fp16"}));
  results
      .flag("--merge{trained}", o.merge,
            "adapters: export the whole model with the adapter merged in f32 and rounded once, into the weights that "
            "it was trained beside (those in fewer bits: dequantised); --merge=base: into the original ones, which may "
            "change the loss")
      ->check(CLI::IsMember({"trained", "base"}));
  results.size("--shard-size", o.shardBytes, "largest file of the export (default 5GB)");
  results.option("--hf-config", o.hfConfig, "DIR",
                 "folder whose config.json and tokenizer files the export gets (default: that of the weights)");
  results.flag("--no-save", o.noSave, "write no model unless --export is given");
  const OptionGroup logs{app, "Logs and profiles"};
  logs.option("--log-json", o.logJson, "FILE", "one JSON object per line: the run, then every step and evaluation");
  logs.option("--tensorboard", o.tensorboard, "DIR", "event files for TensorBoard: loss, norm, rates, evaluations");
  logs.option("--log-every", o.logEvery, "N",
              "log every N-th step, and the last one, to --log-json and --tensorboard (default 1)");
  logs.option("--dump-gradients", o.dumpGradients, "FILE", "safetensors file with the first step's gradients");
  logs.flag("--profile{kernels}", o.profile,
            "print at the end where the time of a step went, by kernel and library call; --profile=steps: by step of "
            "the plan");
  logs.flag("--poison", o.poison,
            "on CPUs: fill memory with NaN as soon as nothing may read it any more, so that a plan that reads it ends "
            "with a loss of NaN");
  logs.option("--trace", o.trace, "FILE",
              "timeline of the last steps, one row per worker or stream (open it in ui.perfetto.dev)");
  const OptionGroup text{app, "Text"};
  text.option("--generate", o.generate, "N",
              "generate up to N tokens (of --tokenizer, otherwise bytes) instead of training");
  text.option("--prompt", o.prompt, "TEXT", "text that --generate continues; special tokens in it count as such");
  text.option("--prompts", o.promptFile, "FILE",
              "prompts, one per line; .jsonl: the `prompt` of each line. Prints one JSON object per prompt");
  text.option("--temperature", o.temperature, "X", "sampling temperature (default 0: the most likely token)");
  text.option("--top-k", o.topK, "K", "sample from the K most likely tokens");
  text.option("--top-p", o.topP, "P", "sample from the most likely tokens that together have probability P");
  text.option("--sample-every", o.sampleEvery, "N",
              "while training, print and log generated text every N steps and at the end");
  text.option("--sample-prompt", o.samplePrompts, "TEXT", "text that a sample continues; repeatable")
      ->allow_extra_args(false);
  text.option("--sample-tokens", o.sampleTokens, "N", "tokens per sample (default 64)");
}

/// CLI11's sentences, on one line.
std::string oneLine(std::string text) {
  for (char &c : text)
    if (c == '\n')
      c = ' ';
  while (!text.empty() && text.back() == ' ')
    text.pop_back();
  return text;
}

/// Options of ztc compile: a plan has them already.
constexpr const char *kCompileOptions[] = {"--batch",           "--seq",       "--precision",     "--precision-policy",
                                           "--optimizer-state", "--recompute", "--prefetch",      "--mem",
                                           "--reserve",         "--target",    "--zero",          "--freeze",
                                           "--no-decay",        "--lr-of",     "--padding-token", "--input",
                                           "--adapter",         "--lora",      "--quantize",      "--master",
                                           "--update",          "--host-mem"};

/// What others call our options.
constexpr std::pair<const char *, const char *> kOtherNames[] = {
    {"--learning-rate", "--lr"},
    {"--num-train-epochs", "--epochs"},
    {"--max-steps", "--steps"},
    {"--gradient-accumulation-steps", "--accumulate"},
    {"--warmup-steps", "--warmup"},
    {"--warmup-ratio", "--warmup"},
    {"--lr-scheduler-type", "--schedule"},
    {"--max-grad-norm", "--clip"},
    {"--adam-beta1", "--beta1"},
    {"--adam-beta2", "--beta2"},
    {"--adam-epsilon", "--epsilon"},
    {"--sgd-momentum", "--momentum"},
    {"--output-dir", "--export"},
    {"--save-steps", "--save-every"},
    {"--save-total-limit", "--keep"},
    {"--eval-steps", "--eval-every"},
    {"--train-file", "--data"},
    {"--prompt-file", "--prompts"},
    {"--early-stopping-patience", "--patience"},
    {"--do-eval", "--eval-only"},
    {"--eval-file", "--eval-data"},
    {"--dataset", "--data"},
    {"--resume-from-checkpoint", "--resume"},
    {"--nproc-per-node", "--ranks"},
    {"--per-device-train-batch-size", "--batch"},
    {"--max-seq-length", "--seq"},
    {"--max-length", "--seq"},
    {"--bf16", "--precision"},
    {"--fp16", "--precision"},
    {"--fp8", "--precision"},
};

std::vector<std::string> optionNames(const CLI::App &app) {
  std::vector<std::string> known;
  for (const CLI::Option *option : app.get_options())
    for (const std::string &name : option->get_lnames())
      known.push_back("--" + name);
  return known;
}

/// A sentence about `name`, which is not an option.
std::string adviceFor(const std::string &name, const std::vector<std::string> &known) {
  std::string dashed = name;
  std::ranges::replace(dashed, '_', '-');
  std::string meant = dashed;
  for (const auto &[other, ours] : kOtherNames)
    if (dashed == other)
      meant = ours;
  if (std::ranges::find(kCompileOptions, meant) != std::end(kCompileOptions))
    return fmt::format("{} is not an option of ztc-run: `ztc compile` has {}, and the plan keeps what it said", name,
                       meant);
  if (meant == dashed)
    meant = nearestName(name, known);
  return fmt::format("there is no option {}{}; see ztc-run --help", name,
                     meant.empty() ? "" : fmt::format(", did you mean {}?", meant));
}

/// A sentence about the first word that is not an option; `app` has parsed in vain.
std::string unknownOption(const CLI::App &app, int argc, const char *const *argv) {
  const std::vector<std::string> known = optionNames(app);
  for (int i = 1; i < argc; ++i) {
    const std::string word(argv[i]);
    const std::string name = word.substr(0, word.find('='));
    if (name.starts_with("--") && std::ranges::find(known, name) == known.end())
      return adviceFor(name, known);
  }
  const std::vector<std::string> rest = app.remaining();
  return fmt::format("'{}' is one word too many: a run has one plan, and options begin with --; see ztc-run --help",
                     rest.empty() ? "" : rest.front());
}

/// What is wrong with the file of --config.
struct ConfigProblem : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Lets CLI11 read our configuration files.
class ConfigFormat final : public CLI::Config {
public:
  explicit ConfigFormat(const CLI::App &app) : app_(app) {}
  std::string to_config(const CLI::App *, bool, bool, std::string) const override { return {}; }
  std::vector<CLI::ConfigItem> from_config(std::istream &in) const override {
    const std::string text(std::istreambuf_iterator<char>(in), {});
    const StatusOr<std::vector<ConfigEntry>> entries = readConfig(text);
    if (!entries.isOk())
      throw ConfigProblem(entries.status().message());
    const std::vector<std::string> known = optionNames(app_);
    std::vector<CLI::ConfigItem> items;
    for (const ConfigEntry &entry : *entries) {
      if (std::ranges::find(known, "--" + entry.name) == known.end())
        throw ConfigProblem(adviceFor("--" + entry.name, known));
      CLI::ConfigItem item;
      item.name = entry.name;
      item.inputs = entry.values;
      items.push_back(std::move(item));
    }
    return items;
  }

private:
  const CLI::App &app_;
};

} // namespace

/// What CLI11 or a check says of an option's value, and where to look.
static std::string withAdvice(const std::string &what) {
  const bool isWarmup = what.find("--warmup") != std::string::npos;
  return what +
         (isWarmup ? ": it counts steps, a whole number, or says a share of them, as 3%" : "; see ztc-run --help");
}

/// --describe-data=S[,VOCABULARY].
static StatusOr<DataQuestion> dataQuestion(const RunOptions &options, const std::string &text) {
  const size_t comma = text.find(',');
  const auto read = [](const std::string &word) {
    const StatusOr<std::string> whole = wholeNumber(word);
    uint64_t number = 0;
    const bool isNumber = whole.isOk() && CLI::detail::lexical_cast(*whole, number);
    return isNumber && number <= uint64_t(std::numeric_limits<int32_t>::max()) ? number : 0;
  };
  DataQuestion question{options, read(text.substr(0, comma)), uint64_t(std::numeric_limits<int32_t>::max())};
  if (comma != std::string::npos)
    question.vocabulary = read(text.substr(comma + 1));
  if (!question.seq || !question.vocabulary)
    return invalidArgument(fmt::format("--describe-data={}: tokens of a row and, if wanted, the vocabulary, as "
                                       "--describe-data=2048,128256",
                                       text));
  if (options.data.empty())
    return invalidArgument("--describe-data: name the files with --data");
  return question;
}

StatusOr<std::variant<RunOptions, CommandLineText, LibraryQuestion, LinkQuestion, DataQuestion>>
parseCommandLine(int argc, const char *const *argv) {
  using Result = std::variant<RunOptions, CommandLineText, LibraryQuestion, LinkQuestion, DataQuestion>;
  std::string describedData;
  RunOptions options;
  std::string schedule = "cosine";
  bool wantsLibraries = false, wantsLinks = false;
  CLI::App app{"Trains the plan that `ztc compile` made. A plan carries machine code: run only those that you made, or "
               "that come from "
               "somebody whose programs you would run."};
  try {
    app.name("ztc-run");
    app.add_option("PLAN", options.plan, "plan.bin")->type_name("");
    addPlaceOptions(app, options);
    addDataOptions(app, options);
    addTrainingOptions(app, options, schedule);
    addResultOptions(app, options);
    app.set_config("--config", "", "file with any of these options (TOML or YAML); the command line wins")
        ->type_name("FILE");
    app.config_formatter(std::make_shared<ConfigFormat>(app));
    app.allow_config_extras(CLI::config_extras_mode::error);
    app.set_version_flag("--version", "ztc-run " ZTC_VERSION);
    app.add_flag("--libraries", wantsLibraries,
                 "print which GPUs and which of NVIDIA's libraries are found, and where");
    app.add_flag(
        "--measure-links", wantsLinks,
        "measure how fast this machine copies memory, moves it to a GPU and, with --disk=DIR, reads and writes "
        "there; later compilations use the rates");
    app.add_option("--describe-data", describedData,
                   "print as JSON what --data holds in rows of S tokens: rows, padding, targets; needs no plan")
        ->type_name("S[,VOCABULARY]");
    app.parse(argc, argv);
  } catch (const CLI::CallForVersion &e) {
    return Result(CommandLineText{std::string(e.what()) + "\n"});
  } catch (const CLI::CallForHelp &) {
    return Result(CommandLineText{app.help()});
  } catch (const ConfigProblem &e) {
    return invalidArgument("--config: " + oneLine(e.what()));
  } catch (const CLI::ConfigError &e) {
    return invalidArgument("--config: " + oneLine(e.what()));
  } catch (const CLI::ExtrasError &) {
    return invalidArgument(unknownOption(app, argc, argv));
  } catch (const CLI::Error &e) {
    return invalidArgument(withAdvice(oneLine(e.what())));
  } catch (const std::exception &e) {
    return invalidArgument(oneLine(e.what()));
  }
  for (const CLI::Option *option : app.get_options())
    if (option->get_type_name() != "TEXT" && std::ranges::count(option->results(), "") > 0)
      return invalidArgument(fmt::format("{}: an empty word stands where {} is expected (a shell variable that is not "
                                         "set?)",
                                         option->get_name(), option->get_type_name()));
  if (wantsLibraries)
    return Result(LibraryQuestion{});
  if (wantsLinks)
    return Result(LinkQuestion{options.disk});
  if (!describedData.empty()) {
    ZTC_ASSIGN_OR_RETURN(DataQuestion question, dataQuestion(options, describedData));
    return Result(std::move(question));
  }
  for (const CLI::Option *option : app.get_options())
    if (option->count() > 0 && !option->get_lnames().empty())
      options.given.insert("--" + option->get_lnames().front());
  if (options.plan.empty()) // not left to CLI11, which would say so before it names an unknown option
    return invalidArgument("a plan is needed: ztc-run PLAN [options]; see ztc-run --help");
  ZTC_ASSIGN_OR_RETURN(options.schedule, parseScheduleKind(schedule));
  options.keepBest = !options.keepBestOf.empty() && options.keepBestOf != "false";
  if (options.keepBestOf == "true" || !options.keepBest) // as the flag alone is read, here and in --config
    options.keepBestOf.clear();
  ZTC_RETURN_IF_ERROR(checkOptions(options));
  return Result(std::move(options));
}

} // namespace ztc
