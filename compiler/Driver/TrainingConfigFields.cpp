#include "compiler/Driver/TrainingConfigFields.h"
#include "compiler/Driver/CommandText.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include <cmath>
#include <limits>

using namespace llvm;

namespace ztc::driver {
namespace {

/// What transformers.TrainingArguments has where nothing is said.
constexpr std::pair<StringLiteral, StringLiteral> kDefaults[] = {
    {"per_device_train_batch_size", "8"},
    {"gradient_accumulation_steps", "1"},
    {"learning_rate", "5e-5"},
    {"weight_decay", "0"},
    {"adam_beta1", "0.9"},
    {"adam_beta2", "0.999"},
    {"adam_epsilon", "1e-8"},
    {"max_grad_norm", "1"},
    {"lr_scheduler_type", "linear"},
    {"warmup_steps", "0"},
    {"num_train_epochs", "3"},
    {"max_steps", "-1"},
    {"bf16", "false"},
    {"fp16", "false"},
};

/// Fields that say how a trainer works, or what it prints and where: nothing that the training depends on. A name that
/// ends with * stands for all that begin so.
struct Unneeded {
  StringLiteral field, why;
};
constexpr Unneeded kUnneeded[] = {
    // Hugging Face
    {"per_device_eval_batch_size", "evaluations take the micro-batch of the plan"},
    {"logging_dir", "ztc-run has --log-json and --tensorboard"},
    {"logging_strategy", "every step is logged"},
    {"logging_first_step", "every step is logged"},
    {"report_to", "ztc-run has --log-json and --tensorboard"},
    {"run_name", "a run has an id of its own"},
    {"do_train", "ztc-run trains"},
    {"dataloader_num_workers", "rows are read beside the steps"},
    {"dataloader_pin_memory", "rows are read into page-locked memory"},
    {"dataloader_drop_last", "the last rows of an epoch go on into the next"},
    {"remove_unused_columns", "data is tokens or chats"},
    {"ddp_find_unused_parameters", "the plan knows what each parameter's gradient is"},
    {"ddp_bucket_cap_mb", "a bucket is a transformer block"},
    {"gradient_checkpointing_kwargs", "the plan chooses what is computed again"},
    {"torch_compile", "the plan is compiled"},
    {"group_by_length", "--pack takes its place"},
    {"push_to_hub", "nothing is uploaded"},
    {"disable_tqdm", "the progress line knows whether somebody looks"},
    {"local_rank", "ranks are started by ztc-run or by torchrun"},
    {"save_safetensors", "checkpoints are safetensors"},
    {"save_strategy", "ztc-run saves every 30 minutes, or as --save-every says"},
    {"eval_strategy", "ztc-run has --eval-every"},
    {"evaluation_strategy", "ztc-run has --eval-every"},
    {"log_level", "ztc-run prints one line of progress"},
    {"ddp_timeout", "ztc-run has --timeout"},
    {"overwrite_output_dir", "ztc-run has --overwrite"},
    {"save_only_model", "an export is the model alone, a checkpoint the state of a run"},
    {"use_liger_kernel", "the plan's kernels are fused, and the logits of a row at a time"},
    {"auto_find_batch_size", "ztc plan finds it"},
    {"average_tokens_across_devices", "a step's loss is the mean over all targets of all ranks"},
    {"dataloader_*", "rows are read beside the steps"},
    {"ddp_*", "collectives are the plan's"},
    {"logging_*", "every step is logged"},
    {"hub_*", "nothing is uploaded"},
    {"include_*", "a run's log holds tokens, targets and padding of each step"},
    {"torch_compile_*", "the plan is compiled"},
    {"gradient_checkpointing_kwargs.*", "the plan chooses what is computed again"},
    {"fsdp_config.*", "the plan shards by --zero, and gathers block by block"},
    // Axolotl
    {"base_model", "it is the model of the command"},
    {"base_model_config", "it is the model of the command"},
    {"model_type", "config.json says it"},
    {"tokenizer_type", "tokenizer.json says it"},
    {"tokenizer_config", "ztc-run has --tokenizer"},
    {"is_llama_derived_model", "config.json says it"},
    {"trust_remote_code", "no code of a model is run"},
    {"strict", "every field is looked at"},
    {"dataset_prepared_path", "data is prepared when it is read"},
    {"flash_attention", "attention never makes an S x S matrix"},
    {"xformers_attention", "attention never makes an S x S matrix"},
    {"sdp_attention", "attention never makes an S x S matrix"},
    {"pad_to_sequence_len", "rows have one length"},
    {"eval_sample_packing", "held-out rows are those of the plan"},
    {"logging_steps", "every step is logged"},
    {"debug", "ztc-run has --profile and --trace"},
    {"dataset_processes", "data is read by one process"},
    {"dataset_num_proc", "data is read by one process"},
    {"evals_per_epoch", "ztc-run has --eval-every"},
    {"saves_per_epoch", "ztc-run saves every 30 minutes, or as --save-every says"},
    {"save_first_step", "a run that cannot save says so before its first step"},
    {"eval_table_size", "ztc-run has --sample-every"},
    {"eval_max_new_tokens", "ztc-run has --sample-every"},
    {"use_tensorboard", "ztc-run has --tensorboard"},
    {"s2_attention", "attention never makes an S x S matrix"},
    {"flex_attention", "attention never makes an S x S matrix"},
    {"eager_attention", "attention never makes an S x S matrix"},
    {"attn_implementation", "attention never makes an S x S matrix"},
    {"flash_attn_*", "the plan's kernels are fused"},
    {"liger_*", "the plan's kernels are fused, and the logits of a row at a time"},
    {"lora_mlp_kernel", "the adapter's products are merged where that pays"},
    {"lora_qkv_kernel", "the adapter's products are merged where that pays"},
    {"lora_o_kernel", "the adapter's products are merged where that pays"},
    {"low_cpu_mem_usage", "weights go to the device tensor by tensor"},
    {"special_tokens.*", "tokenizer.json says them; padding is a place in a row, no token"},
    // DeepSpeed
    {"steps_per_print", "ztc-run prints one line of progress"},
    {"wall_clock_breakdown", "ztc-run has --profile"},
    {"zero_allow_untested_optimizer", "every optimizer works at every stage"},
    {"zero_force_ds_cpu_optimizer", "updates are the plan's, with the same bits wherever the states lie"},
    {"zero_optimization.overlap_comm", "collectives run beside the computation"},
    {"zero_optimization.contiguous_gradients", "buckets are contiguous"},
    {"zero_optimization.reduce_scatter", "gradients are reduced and scattered"},
    {"zero_optimization.reduce_bucket_size", "a bucket is a transformer block"},
    {"zero_optimization.allgather_bucket_size", "a bucket is a transformer block"},
    {"zero_optimization.allgather_partitions", "parameters are gathered bucket by bucket"},
    {"zero_optimization.sub_group_size", "updates are made bucket by bucket"},
    {"zero_optimization.round_robin_gradients", "shards are cut from each bucket"},
    {"zero_optimization.stage3_prefetch_bucket_size", "--prefetch counts blocks"},
    {"zero_optimization.stage3_param_persistence_threshold", "small parameters lie in the buckets of their blocks"},
    {"zero_optimization.stage3_max_live_parameters", "--prefetch counts blocks"},
    {"zero_optimization.stage3_max_reuse_distance", "the plan knows when a bucket is used again"},
    {"zero_optimization.stage3_gather_16bit_weights_on_model_save", "an export is whole"},
    {"zero_optimization.stage3_gather_fp16_weights_on_model_save", "an export is whole"},
    {"zero_optimization.max_live_parameters", "--prefetch counts blocks"},
    {"zero_optimization.max_reuse_distance", "the plan knows when a bucket is used again"},
    {"zero_optimization.gather_16bit_weights_on_model_save", "an export is whole"},
    {"zero_optimization.elastic_checkpoint", "a checkpoint is tied to no number of ranks"},
    {"zero_optimization.load_from_fp32_weights", "masters are read from the weights as they are stored"},
    {"zero_optimization.ignore_unused_parameters", "the plan knows what each parameter's gradient is"},
    {"communication_data_type", "gradients are reduced in the type that the plan stores them in"},
    {"prescale_gradients", "gradients are divided once, by the targets that count"},
    {"gradient_predivide_factor", "gradients are divided once, by the targets that count"},
    {"sparse_gradients", "gradients are dense"},
    {"activation_checkpointing.*", "the plan chooses what is computed again"},
    {"aio.*", "ztc-run measures the disk: --measure-links"},
    {"flops_profiler.*", "ztc-run has --profile"},
    {"comms_logger.*", "ztc-run logs what is sent, and has --profile"},
    {"tensorboard.*", "ztc-run has --tensorboard"},
    {"wandb.*", "ztc-run has --log-json and --tensorboard"},
    {"csv_monitor.*", "ztc-run has --log-json"},
    {"compile.*", "the plan is compiled"},
    {"dump_state", "ztc inspect shows a plan"},
    {"memory_breakdown", "ztc memory --explain shows every byte"},
    {"fp16.auto_cast", "the precision is the plan's"},
    {"bf16.auto_cast", "the precision is the plan's"},
    {"fp16.loss_scale_window", "the scale doubles after 2000 good steps"},
    {"fp16.hysteresis", "the scale halves at each overflow"},
    {"fp16.min_loss_scale", "twenty skips in a row end the run"},
    {"fp16.loss_scale", "the scale is dynamic; ztc-run has --loss-scale"},
    {"scheduler.params.warmup_min_lr", "the warm-up begins at 0"},
};

} // namespace

bool saysYes(StringRef text) {
  return text.equals_insensitive("true") || text.equals_insensitive("yes") || text.equals_insensitive("on");
}
bool asksForNothing(StringRef text) {
  return text.empty() || text == "~" || text.equals_insensitive("null") || text.equals_insensitive("none") ||
         text.equals_insensitive("false") || text.equals_insensitive("no") || text.equals_insensitive("off");
}

std::optional<double> numberIn(StringRef text) {
  double value = 0;
  return text.trim().getAsDouble(value) ? std::nullopt : std::optional(value);
}

namespace {
/// The numbers that an option of ztc or ztc-run takes.
struct NumberRange {
  StringLiteral option;
  bool isWhole;
  double least, most;
};

constexpr double kNoLimit = std::numeric_limits<double>::infinity();
constexpr NumberRange kRanges[] = {{"batch", true, 1, 1 << 20},
                                   {"seq", true, 1, 1 << 24},
                                   {"global-batch", true, 1, 1 << 24},
                                   {"accumulate", true, 1, 1 << 20},
                                   {"zero", true, 0, 3},
                                   {"steps", true, 1, kNoLimit},
                                   {"save-every", true, 1, kNoLimit},
                                   {"eval-every", true, 1, kNoLimit},
                                   {"keep", true, 1, kNoLimit},
                                   {"patience", true, 1, kNoLimit},
                                   {"seed", true, 0, kNoLimit},
                                   {"epochs", false, 0.0001, 1e9},
                                   {"lr", false, 0, kNoLimit},
                                   {"weight-decay", false, 0, kNoLimit},
                                   {"clip", false, 0, kNoLimit},
                                   {"epsilon", false, 0, kNoLimit},
                                   {"beta1", false, 0, 1},
                                   {"beta2", false, 0, 1},
                                   {"min-lr-ratio", false, 0, 1}};
} // namespace

std::string problemOfNumber(StringRef option, StringRef text) {
  const auto *range = find_if(kRanges, [&](const NumberRange &known) { return known.option == option; });
  if (range == std::end(kRanges))
    return {};
  const std::optional<double> number = numberIn(text);
  const bool isWritten = number && (!range->isWhole || all_of(text.trim(), isDigit));
  if (isWritten && std::isfinite(*number) && *number >= range->least && *number <= range->most)
    return {};
  return ("--" + option + " takes " + (range->isWhole ? "whole numbers" : "numbers") + " from " +
          decimal(range->least) + (range->most < kNoLimit ? " to " + decimal(range->most) : ""))
      .str();
}

ArrayRef<std::pair<StringLiteral, StringLiteral>> defaultArguments() {
  return kDefaults;
}

StringRef defaultArgument(StringRef name) {
  for (const auto &[known, value] : kDefaults)
    if (name == known)
      return value;
  return {};
}

StringRef whyUnneeded(StringRef field) {
  for (const Unneeded &each : kUnneeded) {
    StringRef name = each.field;
    if (name.consume_back("*") ? field.starts_with(name) : field == name)
      return each.why;
  }
  return {};
}

std::string scheduleNamed(StringRef name) {
  return StringSwitch<std::string>(name)
      .Cases({"linear", "WarmupDecayLR"}, "linear")
      .Cases({"cosine", "cosine_with_min_lr"}, "cosine")
      .Cases({"constant", "constant_with_warmup", "WarmupLR"}, "constant")
      .Case("warmup_stable_decay", "wsd")
      .Default("");
}

std::pair<std::string, std::string> optimizerNamed(StringRef name) {
  using Pair = std::pair<std::string, std::string>;
  return StringSwitch<Pair>(name)
      .Cases({"adamw_torch", "adamw_torch_fused", "adamw_hf", "adamw", "AdamW"}, Pair("adamw", "fp32"))
      .Cases({"adamw_bnb_8bit", "adamw_8bit", "paged_adamw_8bit", "adamw_torch_8bit"}, Pair("adamw", "int8"))
      .Case("paged_adamw_32bit", Pair("adamw", "fp32"))
      .Cases({"lion_32bit", "Lion", "lion"}, Pair("lion", "fp32"))
      .Cases({"lion_8bit", "paged_lion_8bit"}, Pair("lion", "int8"))
      .Cases({"sgd", "SGD"}, Pair("sgd", "fp32"))
      .Cases({"muon", "Muon"}, Pair("muon", "fp32"))
      .Default(Pair());
}

} // namespace ztc::driver
