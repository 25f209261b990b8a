// Axolotl's YAML as options.
#include "compiler/Driver/CommandText.h"
#include "compiler/Driver/TrainingConfig.h"
#include "compiler/Driver/TrainingConfigData.h"
#include "compiler/Driver/TrainingConfigFields.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <map>

using namespace llvm;

namespace ztc::driver {

/// A list as --lora has it.
static std::string asWords(std::string list) {
  llvm::replace(list, ',', '+');
  return list;
}

/// Whether a list holds names of modules, not a regular expression.
static bool areNames(StringRef list) {
  return all_of(list, [](char c) { return isAlnum(c) || StringRef("_.,-").contains(c); });
}

/// "datasets[0].path" to "datasets[0]" and "path"; of a field of no set both are empty.
static std::pair<std::string, StringRef> placeInSet(StringRef field) {
  const auto [set, within] = field.split("].");
  if (within.empty() || !(set.starts_with("datasets[") || set.starts_with("test_datasets[")))
    return {};
  return {(set + "]").str(), within};
}

void TrainingConfig::takeOfSet(const std::string &file, const Value &value, const ConfigDataSet &set,
                               StringRef within) {
  const StringRef option = StringRef(value.field).starts_with("test_") ? "eval-data" : "data";
  const ConfigDataSet::Outcome outcome = set.outcomeOf(within, option);
  add(file, value, outcome.fate, outcome.text);
  if (outcome.fate != ConfigField::Taken || (within != "path" && within != "data_files"))
    return;
  for (const std::string &read : set.files()) // all of them, one after the other
    runWords.emplace_back(option.str(), read);
  if (set.isText())
    runWords.emplace_back("tokenizer", tokenizer);
}

void TrainingConfig::readAxolotl(const std::string &file, const std::vector<Value> &values) {
  const auto valueOf = [&](StringRef name) {
    for (const Value &value : values)
      if (value.field == name && !value.isNothing)
        return value.text;
    return std::string();
  };
  for (const Value &value : values)
    if (value.field == "max_steps")
      arguments.emplace_back(value.field, value.text);
  const std::string adapter = valueOf("adapter");
  std::map<std::string, std::map<std::string, std::string>> fieldsOfSets;
  for (const Value &value : values)
    if (const auto [set, within] = placeInSet(value.field); !set.empty() && !value.isNothing)
      fieldsOfSets[set][within.str()] = value.text;
  const std::string sequence = valueOf("sequence_len");
  const RowsWanted wanted{shellWord(tokenizer), sequence, saysYes(valueOf("train_on_inputs"))};
  std::map<std::string, ConfigDataSet> sets;
  for (auto &[set, fields] : fieldsOfSets)
    sets.emplace(set, ConfigDataSet(std::move(fields), wanted));
  for (const Value &value : values) {
    const StringRef field = value.field;
    if (field == "micro_batch_size") {
      arguments.emplace_back("per_device_train_batch_size", value.text);
      compileOption(file, value, "batch", value.text);
    } else if (field == "sequence_len") {
      compileOption(file, value, "seq", value.text);
    } else if (field == "sample_packing" && !value.isNothing) {
      compileOption(file, value, "pack", "on");
    } else if (field == "adapter" && (value.text == "lora" || value.text == "qlora")) {
      const std::string modules = valueOf("lora_target_modules");
      std::string text = "r=" + (valueOf("lora_r").empty() ? "8" : valueOf("lora_r")) +
                         ",alpha=" + (valueOf("lora_alpha").empty() ? "16" : valueOf("lora_alpha"));
      if (!valueOf("lora_dropout").empty() && numberIn(valueOf("lora_dropout")).value_or(0) != 0)
        text += ",dropout=" + valueOf("lora_dropout");
      const bool isAll = saysYes(valueOf("lora_target_linear")) || modules.empty();
      text += ",targets=" + (isAll ? "all-linear" : asWords(modules));
      if (saysYes(valueOf("peft_use_dora")))
        text += ",dora=true";
      if (saysYes(valueOf("peft_use_rslora")))
        text += ",rslora=true";
      if (const std::string saved = valueOf("lora_modules_to_save"); !saved.empty())
        text += ",save=" + asWords(saved);
      compileOption(file, value, "lora", text);
    } else if (field == "lora_model_dir" && !value.isNothing) {
      runOption(file, value, "adapter", value.text);
    } else if (field == "lora_target_modules" && !areNames(value.text)) {
      add(file, value, ConfigField::NotThere,
          "names are taken; a regular expression stands in an adapter_config.json, which --adapter=DIR gives");
    } else if (field == "lora_r" || field == "peft_use_dora" || field == "peft_use_rslora" ||
               field == "lora_modules_to_save" || field == "lora_alpha" || field == "lora_dropout" ||
               field == "lora_target_linear" || field == "lora_target_modules") {
      add(file, value, adapter.empty() ? ConfigField::NotNeeded : ConfigField::Taken,
          adapter.empty() ? "no adapter is asked for" : "in --lora");
    } else if (field == "load_in_4bit" || field == "load_in_8bit") {
      if (value.isNothing)
        add(file, value, ConfigField::NotNeeded, "not asked for");
      else
        compileOption(file, value, "quantize", field == "load_in_4bit" ? "nf4" : "int8");
    } else if (field == "chat_template" && !value.isNothing) {
      const bool isOwn = value.text == "tokenizer_default";
      add(file, value, isOwn ? ConfigField::NotNeeded : ConfigField::NotThere,
          isOwn ? "prepare_chat.py takes the tokenizer's" : "chats take the template of the tokenizer's folder");
    } else if (field == "plugins") {
      const bool isKernels = llvm::all_of(split(value.text, ','), [](StringRef name) {
        return name.empty() || name.contains("liger") || name.contains("cut_cross_entropy");
      });
      add(file, value, isKernels ? ConfigField::NotNeeded : ConfigField::NotThere,
          isKernels ? "the plan's kernels are fused, and the logits of a row at a time"
                    : "of other trainers' plugins kernels alone have something in their place");
    } else if (const auto [set, within] = placeInSet(field); !set.empty() && !value.isNothing) {
      takeOfSet(file, value, sets.at(set), within);
    } else if (field == "shuffle_merged_datasets" && !value.isNothing) {
      runOption(file, value, "shuffle", "");
    } else if (field.starts_with("wandb_") || field.starts_with("mlflow_") || field.starts_with("comet_") ||
               field.starts_with("hub_")) {
      add(file, value, ConfigField::NotNeeded, "ztc-run has --log-json and --tensorboard");
    } else if (field == "val_set_size") {
      const bool isNone = value.isNothing || numberIn(value.text).value_or(1) == 0;
      add(file, value, isNone ? ConfigField::NotNeeded : ConfigField::NotThere,
          isNone ? "nothing is held out" : "held-out rows are files of their own: ztc-run --eval-data");
    } else if (field == "train_on_inputs") {
      const bool isForAny = !value.isNothing && any_of(sets, [](const auto &set) { return set.second.isPrepared(); });
      add(file, value, isForAny ? ConfigField::Taken : ConfigField::NotNeeded,
          isForAny          ? "in prepare_chat.py --train-on=all"
          : value.isNothing ? "of a chat the answers are learnt"
                            : "files of tokens say what is learnt, and of a text all is");
    } else if (!takeCommon(file, value)) {
      add(file, value, ConfigField::NotThere, "");
    }
  }
}

} // namespace ztc::driver
