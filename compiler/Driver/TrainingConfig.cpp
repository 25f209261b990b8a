#include "compiler/Driver/TrainingConfig.h"
#include "compiler/Driver/CommandText.h"
#include "compiler/Driver/Commands.h"
#include "compiler/Driver/TrainingConfigFields.h"
#include "runtime/Core/NearestName.h"
#include "runtime/Core/Print.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/YAMLParser.h"
#include <cmath>
#include <set>

using namespace llvm;

namespace ztc::driver {
namespace {

/// Flattens a tree: "a.b[0].c". Lists of plain values are one value.
template <typename Emit> bool flatten(yaml::Node *node, const std::string &path, const Emit &emit) {
  if (auto *map = dyn_cast<yaml::MappingNode>(node)) {
    for (yaml::KeyValueNode &entry : *map) {
      auto *key = dyn_cast_or_null<yaml::ScalarNode>(entry.getKey());
      if (!key || !entry.getValue())
        return false;
      SmallString<64> storage;
      const std::string name = key->getValue(storage).str();
      if (!flatten(entry.getValue(), path.empty() ? name : path + "." + name, emit))
        return false;
    }
    return true;
  }
  if (auto *list = dyn_cast<yaml::SequenceNode>(node)) {
    std::string joined;
    unsigned index = 0;
    bool isPlain = true;
    for (yaml::Node &item : *list) {
      SmallString<64> storage;
      if (auto *scalar = dyn_cast<yaml::ScalarNode>(&item))
        joined += (joined.empty() ? "" : ",") + scalar->getValue(storage).str();
      else if (isPlain = false; !flatten(&item, path + "[" + std::to_string(index) + "]", emit))
        return false;
      ++index;
    }
    if (isPlain)
      emit(path, joined);
    return true;
  }
  SmallString<256> storage;
  if (auto *scalar = dyn_cast<yaml::ScalarNode>(node))
    emit(path, scalar->getValue(storage).str());
  else if (auto *block = dyn_cast<yaml::BlockScalarNode>(node))
    emit(path, block->getValue().trim().str());
  else
    emit(path, "");
  return true;
}

} // namespace

bool TrainingConfig::readFile(const std::string &path, std::vector<Value> &values) const {
  auto buffer = MemoryBuffer::getFile(path, /*IsText=*/true);
  if (!buffer)
    return fail("--config=" + path + ": " + buffer.getError().message()), false;
  SourceMgr sources;
  std::string problem;
  sources.setDiagHandler(
      [](const SMDiagnostic &diagnostic, void *context) {
        auto &text = *static_cast<std::string *>(context);
        if (text.empty())
          text = "line " + std::to_string(diagnostic.getLineNo()) + ": " + diagnostic.getMessage().str();
      },
      &problem);
  yaml::Stream stream((*buffer)->getMemBufferRef(), sources, /*ShowColors=*/false);
  yaml::document_iterator document = stream.begin();
  yaml::Node *root = document != stream.end() ? (*document).getRoot() : nullptr;
  const bool isRead = isa_and_nonnull<yaml::MappingNode>(root) &&
                      flatten(root, "", [&](const std::string &field, const std::string &text) {
                        values.push_back({field, text, asksForNothing(text)});
                      });
  if (isRead && !stream.failed() && problem.empty())
    return true;
  return fail("--config=" + path + ": " +
              (problem.empty() ? "no mapping of fields to values; Axolotl's YAML, DeepSpeed's ds_config.json and "
                                 "TrainingArguments as JSON are read"
                               : problem)),
         false;
}

std::string TrainingConfig::hf(StringRef name) const {
  for (const auto &[known, value] : arguments)
    if (name == known)
      return value;
  return defaultArgument(name).str();
}

void TrainingConfig::add(const std::string &file, const Value &value, ConfigField::Fate fate, const std::string &text) {
  found.push_back({file, value.field, value.text, fate, text});
}

bool TrainingConfig::isTakenAs(const std::string &file, const Value &value, StringRef option, StringRef text) {
  const std::string problem = problemOfNumber(option, text);
  if (problem.empty())
    return true;
  if (asksForNothing(text))
    add(file, value, ConfigField::NotNeeded, "nothing is asked for");
  else
    add(file, value, ConfigField::NotThere, problem);
  return false;
}

void TrainingConfig::compileOption(const std::string &file, const Value &value, const std::string &name,
                                   const std::string &text) {
  if (!isTakenAs(file, value, name, text))
    return;
  compileWords.emplace_back(name, text);
  add(file, value, ConfigField::Taken, "--" + name + "=" + text);
}

void TrainingConfig::runOption(const std::string &file, const Value &value, const std::string &name,
                               const std::string &text) {
  if (!isTakenAs(file, value, name, text))
    return;
  runWords.emplace_back(name, text);
  add(file, value, ConfigField::Taken, "ztc-run --" + name + (text.empty() ? "" : "=" + text));
}

/// Memory below the device is asked for: rows with it stand in the table where nothing else fits.
void TrainingConfig::takeOffload(const std::string &file, const Value &value) {
  add(file, value, value.isNothing ? ConfigField::NotNeeded : ConfigField::Taken,
      value.isNothing ? "nothing is asked for"
                      : "the host's memory is used where nothing else fits, and as little of it as does: --host-mem");
}

/// What Hugging Face's arguments and Axolotl's have in common.
bool TrainingConfig::takeCommon(const std::string &file, const Value &value) {
  const StringRef field = value.field;
  const std::string run = StringSwitch<std::string>(field)
                              .Case("learning_rate", "lr")
                              .Case("weight_decay", "weight-decay")
                              .Case("adam_beta1", "beta1")
                              .Case("adam_beta2", "beta2")
                              .Case("adam_epsilon", "epsilon")
                              .Case("max_grad_norm", "clip")
                              .Case("output_dir", "save")
                              .Case("seed", "seed")
                              .Case("save_total_limit", "keep")
                              .Case("resume_from_checkpoint", "resume")
                              .Case("early_stopping_patience", "patience")
                              .Default("");
  arguments.emplace_back(value.field, value.text);
  if (!run.empty()) {
    if (value.isNothing)
      add(file, value, ConfigField::NotNeeded, "nothing is asked for");
    else
      runOption(file, value, run, value.text);
    return true;
  }
  if (field == "gradient_accumulation_steps") {
    if (isTakenAs(file, value, "accumulate", value.text))
      add(file, value, ConfigField::Taken, "in the global batch");
    return true;
  }
  if (field == "max_steps" || field == "num_train_epochs" || field == "num_epochs") {
    const std::optional<double> count = numberIn(value.text);
    if (field == "max_steps" && (!count || *count <= 0))
      add(file, value, ConfigField::NotNeeded, "epochs say how long");
    else if (field != "max_steps" && numberIn(hf("max_steps")).value_or(-1) > 0)
      add(file, value, ConfigField::NotNeeded, "max_steps says how long");
    else
      runOption(file, value, field == "max_steps" ? "steps" : "epochs", value.text);
    return true;
  }
  if (field == "warmup_steps" || field == "warmup_ratio") {
    const double count = numberIn(value.text).value_or(0);
    if (count == 0)
      add(file, value, ConfigField::NotNeeded, "0 is the default");
    else if (field == "warmup_ratio" && numberIn(hf("warmup_steps")).value_or(0) > 0)
      add(file, value, ConfigField::NotNeeded, "warmup_steps says how long");
    else if (field == "warmup_steps" && count >= 1)
      runOption(file, value, "warmup", value.text);
    else
      runOption(file, value, "warmup", decimal(100 * count) + "%");
    return true;
  }
  if (field == "lr_scheduler_type" || field == "lr_scheduler") {
    const std::string schedule = scheduleNamed(value.text);
    if (schedule.empty()) {
      add(file, value, ConfigField::NotThere, "schedules are cosine, linear, constant, wsd");
      return true;
    }
    runOption(file, value, "schedule", schedule);
    if (schedule != "constant" && schedule != "wsd") // those of transformers end at 0
      runWords.emplace_back("min-lr-ratio", "0");
    return true;
  }
  if (field == "cosine_min_lr_ratio") {
    runOption(file, value, "min-lr-ratio", value.text);
    return true;
  }
  if (field == "save_steps" || field == "eval_steps") {
    const std::optional<double> count = numberIn(value.text);
    if (count && *count >= 1)
      runOption(file, value, field == "save_steps" ? "save-every" : "eval-every", value.text);
    else
      add(file, value, value.isNothing ? ConfigField::NotNeeded : ConfigField::NotThere,
          value.isNothing ? "nothing is asked for" : "a share of the steps: count them");
    return true;
  }
  if (field == "optim" || field == "optimizer") {
    const auto [name, states] = optimizerNamed(value.text);
    if (name.empty()) {
      add(file, value, ConfigField::NotThere, "optimizers are adamw, lion, muon, sgd and those of plugins");
      return true;
    }
    compileOption(file, value, "optimizer", name);
    if (states != "fp32")
      compileOption(file, value, "optimizer-state", states);
    return true;
  }
  if (field == "bf16" || field == "fp16") {
    const bool isAuto = value.text == "auto";
    if (saysYes(value.text) || value.text == "full" || (isAuto && field == "bf16"))
      compileOption(file, value, "precision", field.str());
    else
      add(file, value, ConfigField::NotNeeded, "not asked for");
    return true;
  }
  if (field == "tf32") {
    add(file, value, ConfigField::NotNeeded, "it is for products of fp32 factors: ztc compile --tf32");
    return true;
  }
  if (field == "gradient_checkpointing") {
    add(file, value, ConfigField::NotNeeded, "the plan computes again what the memory asks for");
    return true;
  }
  if (field == "fsdp") {
    const StringRef asked(value.text);
    if (asked.contains("full_shard") || asked.contains("hybrid_shard"))
      compileOption(file, value, "zero", "3");
    else if (asked.contains("shard_grad_op"))
      compileOption(file, value, "zero", "2");
    else
      add(file, value, value.isNothing ? ConfigField::NotNeeded : ConfigField::NotThere,
          value.isNothing ? "nothing is asked for" : "full_shard and shard_grad_op are --zero=3 and 2");
    return true;
  }
  if (field == "fsdp_config.fsdp_offload_params" || field == "fsdp_config.offload_params") {
    takeOffload(file, value);
    return true;
  }
  if (field == "deepspeed") {
    add(file, value, value.isNothing ? ConfigField::NotNeeded : ConfigField::Taken,
        value.isNothing ? "nothing is asked for" : "give that file too: --config=" + value.text);
    return true;
  }
  return false;
}

void TrainingConfig::readHuggingFace(const std::string &file, const std::vector<Value> &values) {
  // max_steps decides about epochs, wherever it stands.
  for (const Value &value : values)
    if (value.field == "max_steps")
      arguments.emplace_back(value.field, value.text);
  for (const Value &value : values) {
    if (value.field == "per_device_train_batch_size") {
      arguments.emplace_back(value.field, value.text);
      compileOption(file, value, "batch", value.text);
    } else if (!takeCommon(file, value)) {
      add(file, value, ConfigField::NotThere, "");
    }
  }
  const auto isSaid = [&](StringRef name) {
    return any_of(values, [&](const Value &value) { return value.field == name; });
  };
  for (const auto &[name, text] : defaultArguments()) {
    const Value value{name.str(), text.str(), asksForNothing(text)};
    const bool isSteps = name == "num_train_epochs" && numberIn(hf("max_steps")).value_or(-1) > 0;
    if (isSaid(name) || value.isNothing || text == "-1" || isSteps || (name == "warmup_steps"))
      continue;
    const size_t count = found.size();
    if (name == "per_device_train_batch_size")
      compileOption(file, value, "batch", value.text);
    else
      (void)takeCommon(file, value);
    for (ConfigField &field : MutableArrayRef(found).drop_front(count))
      field.text += " (the default of TrainingArguments)";
  }
}

void TrainingConfig::readDeepSpeed(const std::string &file, std::vector<Value> values) {
  // As TrainingArguments.get_warmup_steps of transformers counts: a part of the steps where no number of them is given.
  const auto warmup = [&]() -> std::string {
    const double steps = numberIn(hf("warmup_steps")).value_or(0), ratio = numberIn(hf("warmup_ratio")).value_or(0);
    if (steps >= 1 || (steps == 0 && ratio <= 0))
      return hf("warmup_steps");
    return decimal(100 * (steps > 0 ? steps : ratio)) + "%";
  };
  // As transformers' HfTrainerDeepSpeedConfig fills in "auto".
  const auto filled = [&](StringRef field) -> std::string {
    return StringSwitch<std::string>(field)
        .Case("train_micro_batch_size_per_gpu", hf("per_device_train_batch_size"))
        .Case("gradient_accumulation_steps", hf("gradient_accumulation_steps"))
        .Case("gradient_clipping", hf("max_grad_norm"))
        .Cases({"optimizer.params.lr", "scheduler.params.warmup_max_lr"}, hf("learning_rate"))
        .Case("optimizer.params.betas", hf("adam_beta1") + "," + hf("adam_beta2"))
        .Case("optimizer.params.eps", hf("adam_epsilon"))
        .Case("optimizer.params.weight_decay", hf("weight_decay"))
        .Case("scheduler.params.warmup_num_steps", warmup())
        .Case("scheduler.params.warmup_min_lr", "0")
        .Case("fp16.enabled", hf("fp16"))
        .Case("bf16.enabled", hf("bf16"))
        .Default("auto");
  };
  for (Value &value : values) {
    const std::string said = value.text;
    if (said == "auto") {
      value.text = filled(value.field);
      value.isNothing = asksForNothing(value.text);
    }
    const StringRef field = value.field;
    const size_t count = found.size();
    const std::string run = StringSwitch<std::string>(field)
                                .Case("gradient_clipping", "clip")
                                .Cases({"optimizer.params.lr", "scheduler.params.warmup_max_lr"}, "lr")
                                .Case("optimizer.params.eps", "epsilon")
                                .Case("optimizer.params.weight_decay", "weight-decay")
                                .Case("scheduler.params.warmup_num_steps", "warmup")
                                .Default("");
    if (field == "train_micro_batch_size_per_gpu") {
      arguments.emplace_back("per_device_train_batch_size", value.text);
      compileOption(file, value, "batch", value.text);
    } else if (field == "gradient_accumulation_steps") {
      arguments.emplace_back(field.str(), value.text);
      if (isTakenAs(file, value, "accumulate", value.text))
        add(file, value, ConfigField::Taken, "in the global batch");
    } else if (field == "train_batch_size") {
      if (value.text == "auto")
        add(file, value, ConfigField::Taken, "ranks x micro-batch x gradient_accumulation_steps");
      else
        compileOption(file, value, "global-batch", value.text);
    } else if (!run.empty()) {
      runOption(file, value, run, value.text);
    } else if (field == "optimizer.params.betas") {
      const auto [first, second] = StringRef(value.text).split(',');
      runOption(file, value, "beta1", first.trim().str());
      runOption(file, value, "beta2", second.trim().str());
    } else if (field == "optimizer.type") {
      const auto [name, states] = optimizerNamed(value.text == "Adam" ? StringRef("AdamW") : StringRef(value.text));
      if (name.empty())
        add(file, value, ConfigField::NotThere, "optimizers are adamw, lion, muon, sgd and those of plugins");
      else
        compileOption(file, value, "optimizer", name);
    } else if (field == "optimizer.params.torch_adam" || field == "optimizer.params.adam_w_mode") {
      const bool isDecoupled = field == "optimizer.params.torch_adam" || !value.isNothing;
      add(file, value, isDecoupled ? ConfigField::NotNeeded : ConfigField::NotThere,
          isDecoupled ? "the update is AdamW's" : "the decay of adamw is decoupled");
    } else if (field == "scheduler.type") {
      const std::string schedule = scheduleNamed(value.text);
      if (schedule.empty())
        add(file, value, ConfigField::NotThere, "schedules are cosine, linear, constant, wsd");
      else
        runOption(file, value, "schedule", schedule);
    } else if (field == "scheduler.params.total_num_steps") {
      if (said == "auto")
        add(file, value, ConfigField::NotNeeded, "the steps of the run");
      else
        runOption(file, value, "steps", value.text);
    } else if (field == "zero_optimization.stage") {
      compileOption(file, value, "zero", value.text);
    } else if (field == "fp16.enabled" || field == "bf16.enabled") {
      if (value.isNothing)
        add(file, value, ConfigField::NotNeeded, "not asked for");
      else
        compileOption(file, value, "precision", field.split('.').first.str());
    } else if (field == "fp16.initial_scale_power") {
      const bool isFp16 = any_of(values, [&](const Value &other) {
        return other.field == "fp16.enabled" && !asksForNothing(other.text == "auto" ? hf("fp16") : other.text);
      });
      if (isFp16)
        runOption(file, value, "loss-scale", std::to_string(std::exp2(numberIn(value.text).value_or(16))));
      else
        add(file, value, ConfigField::NotNeeded, "of fp16, which is not asked for");
    } else if (field == "zero_optimization.offload_optimizer.device" ||
               field == "zero_optimization.offload_param.device" || field == "zero_optimization.cpu_offload") {
      takeOffload(file, value);
    } else if (field.starts_with("zero_optimization.offload_") && field.ends_with(".nvme_path")) {
      if (value.isNothing)
        add(file, value, ConfigField::NotNeeded, "nothing is asked for");
      else
        compileOption(file, value, "disk", value.text);
    } else if (field.starts_with("zero_optimization.offload_")) {
      add(file, value, ConfigField::NotNeeded, "what moves, when, and through which buffers is in the plan");
    } else {
      add(file, value, ConfigField::NotThere, "");
    }
    if (said == "auto")
      for (ConfigField &one : MutableArrayRef(found).drop_front(count)) {
        one.value = "auto";
        if (one.fate == ConfigField::Taken)
          one.text += " (as transformers fills it in)";
      }
  }
}

bool TrainingConfig::read(const std::vector<std::string> &files, const std::string &model) {
  tokenizer = sys::fs::is_directory(model) ? model : "FOLDER";
  enum Kind { HuggingFace, Axolotl, DeepSpeed };
  std::vector<std::tuple<Kind, std::string, std::vector<Value>>> all;
  for (const std::string &file : files) {
    std::vector<Value> values;
    if (!readFile(file, values))
      return false;
    std::set<std::string> names;
    for (const Value &value : values)
      names.insert(StringRef(value.field).split('.').first.str());
    const auto hasAny = [&](std::initializer_list<const char *> known) {
      return any_of(known, [&](const char *name) { return names.count(name); });
    };
    if (hasAny({"zero_optimization", "train_micro_batch_size_per_gpu", "train_batch_size", "gradient_clipping"}))
      all.emplace_back(DeepSpeed, file, std::move(values));
    else if (hasAny({"base_model", "sequence_len", "micro_batch_size"}))
      all.emplace_back(Axolotl, file, std::move(values));
    else if (hasAny({"per_device_train_batch_size", "learning_rate", "output_dir", "num_train_epochs", "max_steps"}))
      all.emplace_back(HuggingFace, file, std::move(values));
    else
      return fail("--config=" + file +
                  ": its fields are neither Axolotl's, nor DeepSpeed's, nor those of TrainingArguments"),
             false;
  }
  stable_sort(
      all, [](const auto &a, const auto &b) { return (std::get<0>(a) == DeepSpeed) < (std::get<0>(b) == DeepSpeed); });
  for (const auto &[kind, file, values] : all) {
    const size_t before = found.size();
    if (kind == HuggingFace)
      readHuggingFace(file, values);
    else if (kind == Axolotl)
      readAxolotl(file, values);
    else
      readDeepSpeed(file, values);
    for (ConfigField &field : MutableArrayRef(found).drop_front(before)) {
      if (field.fate != ConfigField::NotThere || !field.text.empty())
        continue;
      if (const StringRef why = whyUnneeded(field.field); !why.empty()) {
        field.fate = ConfigField::NotNeeded;
        field.text = why.str();
      } else if (asksForNothing(field.value)) {
        field.fate = ConfigField::NotNeeded;
        field.text = "nothing is asked for";
      }
    }
  }
  return true;
}

void TrainingConfig::apply(CompileOptions &options, uint64_t &globalBatch, unsigned world) const {
  bool saysGlobalBatch = globalBatch != 0;
  for (const auto &[name, text] : compileWords) {
    if (options.given.count(name))
      continue;
    uint64_t count = 0;
    const bool isCount = !StringRef(text).getAsInteger(10, count);
    if (name == "batch" && isCount)
      options.batch = count;
    else if (name == "seq" && isCount)
      options.seq = count;
    else if (name == "zero" && isCount) {
      options.stages = {unsigned(count)};
      options.given.insert(name);
    } else if (name == "global-batch" && isCount && !saysGlobalBatch)
      globalBatch = count;
    else if (name == "precision")
      options.precision = fromWord<StoragePrecision>(text).value_or(options.precision);
    else if (name == "optimizer")
      options.optimizer = text;
    else if (name == "optimizer-state")
      options.optimizerState = fromWord<StateFormat>(text).value_or(options.optimizerState);
    else if (name == "lora" && options.adapter.empty())
      options.lora = text;
    else if (name == "quantize")
      options.quantize = fromWord<FrozenFormat>(text).value_or(options.quantize);
    else if (name == "pack")
      options.pack = true;
    else if (name == "disk")
      options.disk = text;
  }
  uint64_t accumulate = 1;
  if (!globalBatch && options.batch && !StringRef(hf("gradient_accumulation_steps")).getAsInteger(10, accumulate))
    globalBatch = options.batch * accumulate * world;
}

std::string TrainingConfig::runOptions() const {
  std::string text;
  std::set<std::string> said;
  for (const auto &[name, value] : reverse(runWords))                  // of two files the last one that says it
    if (StringRef(name).ends_with("data") || said.insert(name).second) // several sets are all read
      text = " --" + name + (value.empty() ? "" : "=" + shellWord(value)) + text;
  return text;
}

void TrainingConfig::print(raw_ostream &out) const {
  static constexpr const char *kWords[] = {"taken", "not needed", "not there"};
  for (const ConfigField &field : found)
    out << printable(field.file + ": " + field.field + "=" + field.value) << ": " << kWords[field.fate]
        << (field.text.empty() ? "" : ": ") << printable(field.text) << "\n";
}

/// Whether `name` is the field's, or that of a mapping or list which it is in.
static bool covers(StringRef name, StringRef field) {
  return field.consume_front(name) && !name.empty() && (field.empty() || field[0] == '.' || field[0] == '[');
}

std::vector<std::string> TrainingConfig::notThere(const std::vector<std::string> &ignored) const {
  std::vector<std::string> names;
  for (const ConfigField &field : found) {
    const bool isIgnored = any_of(ignored, [&](const std::string &name) { return covers(name, field.field); });
    if (field.fate == ConfigField::NotThere && !isIgnored && !is_contained(names, field.field))
      names.push_back(field.field);
  }
  return names;
}

std::string TrainingConfig::problemOf(const std::vector<std::string> &ignored) const {
  for (const std::string &name : ignored) {
    const ConfigField *taken = nullptr;
    bool hasOther = false;
    for (const ConfigField &field : found)
      if (covers(name, field.field)) {
        hasOther |= field.fate != ConfigField::Taken;
        taken = &field;
      }
    if (hasOther)
      continue;
    if (taken)
      return "--ignore=" + name + ": that field is taken (" + taken->text +
             "); take it out of the file, or give the option that is to hold in its place";
    std::vector<std::string> known = notThere({});
    const std::string missing = join(known, ", ");
    for (const ConfigField &field : found) {
      known.push_back(field.field);
      for (StringRef parent = field.field; parent.contains('.');)
        known.push_back((parent = parent.rsplit('.').first).str());
    }
    const std::string meant = nearestName(name, known);
    return "--ignore=" + name + ": --config has no such field" +
           (!meant.empty()    ? ", did you mean " + meant + "?"
            : missing.empty() ? ", and none that ztc has nothing for"
                              : "; what may be left out is " + missing);
  }
  return {};
}

} // namespace ztc::driver
