// CLI11 reports by exceptions: they end in this file.
#include "runtime/Tools/CommandLine.h"
#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <functional>

#ifndef ZTC_VERSION
#define ZTC_VERSION "0.1.0"
#endif

namespace ztc {

namespace {

void addPlaceOptions(CLI::App &app, RunOptions &o) {
  app.add_option("--gpus", o.gpus, "number of GPUs of this host, one rank each")->type_name("N")->group("Devices");
  app.add_option("--device", o.device,
                 "cpu (or host: the same) or cuda; default: all GPUs, or one CPU rank if there is none")
      ->check(CLI::IsMember({"cpu", "host", "cuda"}, CLI::ignore_case))
      ->type_name("NAME")
      ->group("Devices");
  app.add_option("--ranks", o.ranks,
                 "number of CPU ranks of this host (default 1, or what torchrun, Open MPI or Slurm started)")
      ->type_name("N")
      ->group("Devices");
  app.add_option("--threads", o.threads, "worker threads per rank (default: cores / ranks)")
      ->type_name("T")
      ->group("Devices");
  app.add_option("--nodes", o.nodes, "number of hosts (default 1); ztc-run is started on each with its --node-rank")
      ->type_name("N")
      ->group("Devices");
  app.add_option("--node-rank", o.nodeRank, "index of this host; rank 0 is on host 0")
      ->type_name("I")
      ->group("Devices");
  app.add_option("--rendezvous", o.rendezvous, "where rank 0 listens, as all hosts reach it")
      ->type_name("HOST:PORT")
      ->group("Devices");
  app.add_option("--timeout", o.timeoutSeconds,
                 "seconds without progress after which a rank counts as hung (default 300)")
      ->type_name("SECONDS")
      ->group("Devices");
}

void addDataOptions(CLI::App &app, RunOptions &o) {
  app.add_option("--data", o.data,
                 "token files (llm.c, nanoGPT, Megatron), .safetensors with input_ids and labels, or text with "
                 "--tokenizer=bytes; "
                 "without it: a trial run on random tokens")
      ->type_name("FILE...")
      ->group("Data");
  app.add_option("--tokenizer", o.tokenizer, "bytes: read --data and --eval-data as text, one token a byte")
      ->type_name("NAME")
      ->group("Data");
  app.add_flag("--shuffle", o.shuffle, "order the rows of each epoch by --seed; default: as in the files")
      ->group("Data");
  app.add_option("--seed", o.seed, "seed of --shuffle, --init and the trial's tokens (default 0)")
      ->type_name("S")
      ->group("Data");
  app.add_option("--weights", o.weights, "Hugging Face folder or safetensors file; overrides what the plan names")
      ->type_name("DIR|FILE")
      ->group("Data");
  app.add_option("--init", o.init, "start from random weights, e.g. normal:0.02 (norms 1, biases 0)")
      ->type_name("normal:STD")
      ->group("Data");
}

void addTrainingOptions(CLI::App &app, RunOptions &o, std::string &schedule) {
  app.add_option("--steps", o.steps, "optimizer steps (the trial without data: 20)")->type_name("N")->group("Training");
  app.add_option("--epochs", o.epochs, "passes over the data, instead of --steps")->type_name("E")->group("Training");
  app.add_option("--accumulate", o.accumulate, "micro-batches per rank and step (default 1)")
      ->type_name("M")
      ->group("Training");
  app.add_option("--lr", o.learningRate, "largest learning rate (default 3e-4)")->type_name("X")->group("Training");
  app.add_option("--schedule", schedule, "cosine (default), linear, constant or wsd (full rate for 80 %, then a line)")
      ->type_name("NAME")
      ->group("Training");
  app.add_option("--warmup", o.warmup, "steps of linear warm-up (default 0)")->type_name("N")->group("Training");
  app.add_option("--min-lr-ratio", o.minLrRatio, "last learning rate over the largest (default 0.1)")
      ->type_name("R")
      ->group("Training");
  app.add_option("--beta1", o.optimizer.beta1, "default 0.9")->type_name("X")->group("Training");
  app.add_option("--beta2", o.optimizer.beta2, "default 0.95")->type_name("X")->group("Training");
  app.add_option("--epsilon", o.optimizer.epsilon, "default 1e-8")->type_name("X")->group("Training");
  app.add_option("--weight-decay", o.optimizer.weightDecay, "default 0.1")->type_name("X")->group("Training");
  app.add_option("--clip", o.optimizer.clip, "largest gradient norm (default 1; 0: no clipping)")
      ->type_name("X")
      ->group("Training");
  app.add_option("--loss-scale", o.lossScale, "first loss scale, fp16 only")->type_name("X")->group("Training");
  app.add_option("--stop-after", o.stopAfter,
                 "end after K steps of those that the schedule is made for; save and export")
      ->type_name("K")
      ->group("Training");
}

void addResultOptions(CLI::App &app, RunOptions &o) {
  app.add_option("--eval-data", o.evalData, "held-out data, read as --data is")->type_name("FILE...")->group("Results");
  app.add_option("--eval-every", o.evalEvery, "evaluate every N steps too, not only at the end")
      ->type_name("N")
      ->group("Results");
  app.add_option("--save", o.save, "folder of step-* checkpoints")->type_name("DIR")->group("Results");
  app.add_option("--save-every", o.saveEvery, "save every N steps too, not only at the end")
      ->type_name("N")
      ->group("Results");
  app.add_option("--keep", o.keep, "keep the newest K checkpoints only")->type_name("K")->group("Results");
  app.add_option("--resume", o.resume, "go on from the newest whole checkpoint in DIR")
      ->type_name("DIR")
      ->group("Results");
  app.add_option("--export", o.exportFolder,
                 "Hugging Face folder to write at the end (default: PLAN-out, where there is no --save)")
      ->type_name("DIR")
      ->group("Results");
  app.add_option("--export-dtype", o.exportDtype, "fp32, bf16 or fp16 (default: as compiled)")
      ->check(CLI::IsMember({"fp32", "bf16", "fp16"}))
      ->type_name("T")
      ->group("Results");
  app.add_option("--hf-config", o.hfConfig, "folder whose config.json and tokenizer files go into the export")
      ->type_name("DIR")
      ->group("Results");
  app.add_flag("--no-save", o.noSave, "leave nothing behind but an explicit --export")->group("Results");
  app.add_option("--log-json", o.logJson, "one JSON object a line: the run, then every step and evaluation")
      ->type_name("FILE")
      ->group("Results");
  app.add_option("--dump-gradients", o.dumpGradients, "safetensors file with the first step's gradients")
      ->type_name("FILE")
      ->group("Results");
  app.add_flag(
         "--profile{kernels}", o.profile,
         "print at the end where the time of a step went, by kernel and library call; --profile=steps: step by step")
      ->group("Results");
  app.add_option("--trace", o.trace, "timeline of the last steps, one row per worker (open it in ui.perfetto.dev)")
      ->type_name("FILE")
      ->group("Results");
  app.add_option("--generate", o.generate, "write N bytes of greedy text instead of training")
      ->type_name("N")
      ->group("Text");
  app.add_option("--prompt", o.prompt, "text that --generate goes on from")->type_name("TEXT")->group("Text");
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

} // namespace

StatusOr<std::variant<RunOptions, CommandLineText>> parseCommandLine(int argc, const char *const *argv) {
  using Result = std::variant<RunOptions, CommandLineText>;
  RunOptions options;
  std::string schedule = "cosine";
  CLI::App app{"Trains the plan that `ztc compile` made."};
  try {
    app.name("ztc-run");
    app.add_option("PLAN", options.plan, "plan.bin")->type_name("");
    addPlaceOptions(app, options);
    addDataOptions(app, options);
    addTrainingOptions(app, options, schedule);
    addResultOptions(app, options);
    app.set_config("--config", "", "file with any of these options (TOML); the command line wins")->type_name("FILE");
    app.allow_config_extras(CLI::config_extras_mode::error);
    app.set_version_flag("--version", "ztc-run " ZTC_VERSION);
    app.parse(argc, argv);
  } catch (const CLI::CallForVersion &e) {
    return Result(CommandLineText{std::string(e.what()) + "\n"});
  } catch (const CLI::CallForHelp &) {
    return Result(CommandLineText{app.help()});
  } catch (const CLI::ConfigError &e) {
    return invalidArgument("--config: " + oneLine(e.what()) + ": no option of that name");
  } catch (const CLI::Error &e) {
    return invalidArgument(oneLine(e.what()) + "; see ztc-run --help");
  } catch (const std::exception &e) {
    return invalidArgument(oneLine(e.what()));
  }
  if (options.plan.empty()) // not left to CLI11, which would say so before it names an unknown option
    return invalidArgument("a plan is needed: ztc-run PLAN [options]; see ztc-run --help");
  ZTC_ASSIGN_OR_RETURN(options.schedule, parseScheduleKind(schedule));
  ZTC_RETURN_IF_ERROR(checkOptions(options));
  return Result(std::move(options));
}

} // namespace ztc
