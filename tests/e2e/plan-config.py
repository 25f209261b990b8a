#!/usr/bin/env python3
"""`ztc plan --config`: fields of Axolotl's YAML, of ds_config.json and of TrainingArguments become options, "auto" is filled in as transformers does, what ztc has
nothing for is refused by name, and the printed commands compile."""
import json
import pathlib
import re
import shlex
import subprocess
import sys

from support import BIN, GOLDEN, ROOT, check, finish, run, scratch

folder = scratch()
work = pathlib.Path(folder.name)
model = GOLDEN / "grouped/model.onnx"


def plan(*arguments, **more):
    return run("ztc", "plan", model, "--gpu=host", "--mem=64MiB", "--threads=1", *arguments, **more)


def write(name, text):
    (work / name).write_text(text if isinstance(text, str) else json.dumps(text))
    return f"--config={work / name}"


def fates(said):
    """Field -> (fate, text) of the lines that list fields."""
    found = {}
    for line in said.splitlines():
        for fate in ("taken", "not needed", "not there"):
            head, mark, text = line.partition(f": {fate}")
            if mark and "=" in head and ": " in head:
                found[head.split(": ", 1)[1].split("=", 1)[0]] = (fate, text.removeprefix(": "))
    return found


AXOLOTL = """base_model: NousResearch/Llama-2-7b-hf
model_type: LlamaForCausalLM
load_in_8bit: false
load_in_4bit: false
datasets:
  - path: tokens.bin
    type: alpaca
val_set_size: 0.0
output_dir: ./out
sequence_len: 16
adapter: lora
lora_r: 2
lora_alpha: 4
lora_target_linear: true
gradient_accumulation_steps: 4
micro_batch_size: 2
num_epochs: 3
optimizer: adamw_bnb_8bit
lr_scheduler: cosine
learning_rate: 0.0002
train_on_inputs: false
bf16: false
tf32: false
gradient_checkpointing: true
logging_steps: 1
flash_attention: true
warmup_ratio: 0.1
wandb_project:
weight_decay: 0.0
special_tokens:
"""
said = plan(write("axolotl.yml", AXOLOTL), "--precision=fp32")
found = fates(said.stdout)
check("every field of the YAML is listed", len(found) == sum(1 for line in AXOLOTL.splitlines() if not line.endswith("datasets:")), sorted(found))
for field, fate, text in (("sequence_len", "taken", "--seq=16"), ("adapter", "taken", "--lora=r=2,alpha=4,targets=all-linear"), ("optimizer", "taken", "--optimizer-state=int8"),
                          ("learning_rate", "taken", "ztc-run --lr=0.0002"), ("warmup_ratio", "taken", "--warmup=10"), ("lora_r", "taken", "in --lora"), ("flash_attention", "not needed", "S x S"),
                          ("load_in_4bit", "not needed", ""), ("datasets[0].path", "taken", "--data=tokens.bin"), ("micro_batch_size", "taken", "--batch=2")):
    check(f"Axolotl's {field}", field in found and found[field][0] == fate and text in found[field][1], found.get(field))
commands = [line.strip() for line in said.stdout.splitlines() if line.strip().startswith("ztc")]
check("the commands say it", any("--batch=2" in c and "--lora=" in c and "--optimizer-state=int8" in c for c in commands) and
      any("--accumulate=4" in c and "--lr=0.0002" in c and "--epochs=3" in c and "--data=tokens.bin" in c for c in commands), commands)
words = shlex.split(next(c for c in commands if c.startswith("ztc compile")))
done = subprocess.run([str(BIN / words[0]), *words[1:]], capture_output=True, text=True, cwd=work, timeout=240)
check("and compile", done.returncode == 0, done.stderr)

DEEPSPEED = {"train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto", "gradient_clipping": "auto",
             "zero_optimization": {"stage": 2, "overlap_comm": True, "reduce_bucket_size": "auto"}, "bf16": {"enabled": "auto"}, "fp16": {"enabled": False},
             "optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": "auto", "eps": "auto", "weight_decay": "auto"}},
             "scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": "auto", "warmup_max_lr": "auto", "warmup_num_steps": "auto"}}}
ARGUMENTS = {"output_dir": "out", "per_device_train_batch_size": 1, "gradient_accumulation_steps": 8, "learning_rate": 3e-5, "weight_decay": 0.05, "max_grad_norm": 0.3, "warmup_steps": 7,
             "max_steps": 100, "logging_steps": 10, "bf16": False, "report_to": "none"}
both = [write("ds.json", DEEPSPEED), write("arguments.json", ARGUMENTS)]
said = plan(*both, "--precision=fp32", "--gpus=1,2", "--seq=16")
found = fates(said.stdout)
for field, text in (("train_micro_batch_size_per_gpu", "--batch=1"), ("gradient_clipping", "--clip=0.3"), ("optimizer.params.lr", "--lr=3e-05"), ("optimizer.params.betas", "--beta2=0.999"),
                    ("optimizer.params.weight_decay", "--weight-decay=0.05"), ("scheduler.params.warmup_num_steps", "--warmup=7")):
    check(f"{field} is filled in", found[field][0] == "taken" and text in found[field][1] and "as transformers" in found[field][1], found[field])
check("the stage is taken", found["zero_optimization.stage"] == ("taken", "--zero=2"), found["zero_optimization.stage"])
check("a step has the rows of the arguments", "16 rows" in said.stdout or "--accumulate=8" in said.stdout, said.stdout)
for what, given, share in (("a ratio", {"warmup_ratio": 0.03}, "3%"), ("a part as transformers 5 has it", {"warmup_steps": 0.05}, "5%"), ("steps beside a ratio", {"warmup_steps": 9, "warmup_ratio": 0.5}, "9")):
    rest = {key: value for key, value in ARGUMENTS.items() if key != "warmup_steps"}
    said = plan(write("ds.json", DEEPSPEED), write("ratio.json", {**rest, **given}), "--precision=fp32", "--seq=16")
    found = fates(said.stdout)["scheduler.params.warmup_num_steps"]
    check(f"the warm-up is filled in from {what}", found[0] == "taken" and f"--warmup={share} " in found[1] + " ", found)
    check(f"and no command has another, from {what}", set(re.findall(r"--warmup=(\S+)", said.stdout.split("ztc-run", 1)[-1])) <= {share}, said.stdout)
said = plan(write("scale.json", {**DEEPSPEED, "fp16": {"enabled": False, "initial_scale_power": 32}}), "--precision=fp32", "--seq=16")
check("the loss scale of fp16 that is not asked for is not needed", fates(said.stdout)["fp16.initial_scale_power"][0] == "not needed", said.stdout)
said = plan(write("alone.json", DEEPSPEED), "--precision=fp32", "--seq=16")
check("without arguments it is the defaults of TrainingArguments", "--lr=5e-5" in fates(said.stdout)["optimizer.params.lr"][1], said.stdout)

# What such files hold beyond the first steps of a tutorial.
QLORA = """base_model: some/model
load_in_4bit: true
datasets:
  - path: tokens.bin
    type: chat_template
    field_messages: messages
chat_template: tokenizer_default
adapter: qlora
lora_model_dir:
sequence_len: 16
pad_to_sequence_len: true
lora_r: 2
lora_alpha: 4
peft_use_dora: true
lora_mlp_kernel: true
plugins:
  - trainer.integrations.liger.LigerPlugin
liger_rope: true
gradient_accumulation_steps: 2
micro_batch_size: 1
num_epochs: 1
optimizer: paged_adamw_8bit
lr_scheduler: cosine
learning_rate: 1e-4
bf16: auto
gradient_checkpointing: true
gradient_checkpointing_kwargs:
  use_reentrant: true
warmup_ratio: 0.03
evals_per_epoch: 4
saves_per_epoch: 1
fsdp:
  - full_shard
  - auto_wrap
fsdp_config:
  fsdp_offload_params: true
  fsdp_state_dict_type: FULL_STATE_DICT
special_tokens:
  pad_token: "<pad>"
"""
found = fates(plan(write("qlora.yml", QLORA), "--gpus=1,2").stdout)
for field, fate, text in (("fsdp", "taken", "--zero=3"), ("fsdp_config.fsdp_offload_params", "taken", "--host-mem"), ("fsdp_config.fsdp_state_dict_type", "not needed", "--zero"),
                          ("peft_use_dora", "taken", "in --lora"), ("adapter", "taken", "dora=true"), ("plugins", "not needed", "fused"), ("liger_rope", "not needed", "fused"),
                          ("chat_template", "not needed", "tokenizer"), ("datasets[0].field_messages", "not needed", "tokens"), ("warmup_ratio", "taken", "--warmup=3%"),
                          ("evals_per_epoch", "not needed", "--eval-every"), ("special_tokens.pad_token", "not needed", "padding"), ("gradient_checkpointing_kwargs.use_reentrant", "not needed", ""),
                          ("lora_mlp_kernel", "not needed", "merged"), ("lora_model_dir", "not needed", "nothing is asked for")):
    check(f"Axolotl's {field}", field in found and found[field][0] == fate and text in found[field][1], found.get(field))
OFFLOAD = {**DEEPSPEED, "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu", "pin_memory": True}, "offload_param": {"device": "none"}, "max_live_parameters": 0,
                                              "gather_16bit_weights_on_model_save": True, "stage3_prefetch_bucket_size": "auto"}, "aio": {"block_size": 1048576}, "prescale_gradients": False}
found = fates(plan(write("offload.json", OFFLOAD), "--precision=fp32", "--gpus=1,2", "--seq=16").stdout)
for field, fate, text in (("zero_optimization.offload_optimizer.device", "taken", "--host-mem"), ("zero_optimization.offload_param.device", "not needed", "nothing is asked for"),
                          ("zero_optimization.offload_optimizer.pin_memory", "not needed", "in the plan"), ("zero_optimization.max_live_parameters", "not needed", ""),
                          ("zero_optimization.gather_16bit_weights_on_model_save", "not needed", "whole"), ("aio.block_size", "not needed", "--measure-links")):
    check(f"DeepSpeed's {field}", field in found and found[field][0] == fate and text in found[field][1], found.get(field))
refused = write("refused.yml", QLORA + "unfrozen_parameters:\n  - lm_head\npeft_layers_to_transform:\n  - 0\n").split("=")[1]
said = plan(f"--config={refused}", expect=2).stderr
check("what would change the training and has nothing here is refused by name", "unfrozen_parameters, peft_layers_to_transform" in said, said)
# Modules that are saved whole, rank-stabilised scales, and several sets, one after the other.
SETS = """base_model: model
adapter: lora
sequence_len: 16
micro_batch_size: 1
lora_r: 4
lora_alpha: 8
lora_target_modules: [q_proj, v_proj]
lora_modules_to_save:
  - lm_head
  - norm
peft_use_rslora: true
shuffle_merged_datasets: true
datasets:
  - path: chats.safetensors
    type: chat_template
  - path: stories.safetensors
    type: completion
num_epochs: 1
"""
said = plan(write("sets.yml", SETS), "--gpus=1", "--global-batch=4", "--precision=fp32").stdout
found = fates(said)
for field, fate, text in (("adapter", "taken", "--lora=r=4,alpha=8,targets=q_proj+v_proj,rslora=true,save=lm_head+norm"), ("lora_modules_to_save", "taken", "in --lora"),
                          ("peft_use_rslora", "taken", "in --lora"), ("datasets[1].path", "taken", "--data=stories.safetensors"), ("datasets[1].type", "not needed", "tokens"),
                          ("shuffle_merged_datasets", "taken", "--shuffle")):
    check(f"Axolotl's {field}, of several sets", field in found and found[field][0] == fate and text in found[field][1], found.get(field))
check("the command reads all sets", "--data=chats.safetensors --data=stories.safetensors" in said and "--shuffle" in said, said)
part = write("part.yml", SETS.replace("    type: completion", "    shards: 10")).split("=")[1]
said = plan(f"--config={part}", expect=2).stderr
check("a part of a set is refused by name", "datasets[1].shards" in said, said)

# Sets of several forms, each by its own type: rows that prepare_chat.py makes, texts that ztc-run reads, a set of a hub.
FORMS = """base_model: model
sequence_len: 16
micro_batch_size: 1
num_epochs: 1
datasets:
  - path: instructions.jsonl
    type: alpaca
  - path: chats/talks.json
    type: chat_template
    field_messages: conversations
    message_property_mappings:
      role: from
      content: value
    roles:
      assistant: [gpt, model]
    roles_to_train: [assistant]
    train_on_eos: turn
    chat_template: jinja
    chat_template_jinja: chat.jinja
  - path: books.jsonl
    type: completion
    field: text
  - path: somebody/ultra-chats
    type: chat_template
    split: train_sft
  - path: json
    data_files: [a.bin, b.jsonl]
    type: completion
    ds_type: json
test_datasets:
  - path: held.txt
    type: completion
"""
folder_of_model = ROOT / "tests/folders/llama3-defaults"
forms = write("forms.yml", FORMS)
said = run("ztc", "plan", folder_of_model, "--gpu=host", "--mem=64MiB", "--threads=1", forms, "--gpus=1", "--global-batch=4", "--precision=fp32", "--method=lora").stdout
found = fates(said)
prepare = f"--tokenizer={folder_of_model} --seq=16"
for field, fate, text in (("datasets[0].path", "taken", f"samples/data/prepare_chat.py instructions.jsonl {prepare} --plain -o instructions.safetensors; ztc-run --data=instructions.safetensors"),
                          ("datasets[0].type", "taken", "--plain"), ("datasets[1].type", "taken", "template"),
                          ("datasets[1].path", "taken", f"prepare_chat.py chats/talks.json {prepare} --chat-template=chat.jinja -o talks.safetensors; ztc-run --data=talks.safetensors"),
                          ("datasets[1].chat_template_jinja", "taken", "--chat-template"), ("datasets[1].field_messages", "not needed", "conversations"),
                          ("datasets[1].message_property_mappings.role", "not needed", "from"), ("datasets[1].message_property_mappings.content", "not needed", "value"),
                          ("datasets[1].roles.assistant", "not needed", "names"), ("datasets[1].roles_to_train", "not needed", "answer"), ("datasets[1].train_on_eos", "not needed", "ends"),
                          ("datasets[2].path", "taken", f"ztc-run --data=books.jsonl --tokenizer={folder_of_model}"), ("datasets[2].type", "taken", "document"), ("datasets[2].field", "not needed", "text"),
                          ("datasets[3].path", "taken", f"its rows are written as ultra-chats.jsonl; samples/data/prepare_chat.py ultra-chats.jsonl {prepare} -o ultra-chats.safetensors"),
                          ("datasets[3].split", "not needed", "written"), ("datasets[4].path", "not needed", "data_files"), ("datasets[4].data_files", "taken", "--data=a.bin --data=b.jsonl"),
                          ("datasets[4].ds_type", "not needed", ""), ("test_datasets[0].path", "taken", "ztc-run --eval-data=held.txt")):
    check(f"{field}, by its type", field in found and found[field][0] == fate and text in found[field][1], found.get(field))
command = next(line for line in said.splitlines() if line.strip().startswith("ztc-run"))
check("one run reads them all", [word for word in shlex.split(command) if word.startswith(("--data=", "--eval-data=", "--tokenizer="))] ==
      ["--data=instructions.safetensors", "--data=talks.safetensors", "--data=books.jsonl", "--data=ultra-chats.safetensors", "--data=a.bin", "--data=b.jsonl", "--eval-data=held.txt",
       f"--tokenizer={folder_of_model}"], command)
help_text = subprocess.run([sys.executable, ROOT / "samples/data/prepare_chat.py", "--help"], capture_output=True, text=True, timeout=120).stdout
words = {word.split("=")[0].rstrip(":") for field in found for word in found[field][1].partition("prepare_chat.py")[2].partition("; ")[0].split() if word.startswith("-")}
check("prepare_chat.py has these options", words >= {"--tokenizer", "--plain", "-o"} and all(word in help_text for word in words), words)
said = run("ztc", "plan", folder_of_model, "--gpu=host", "--mem=64MiB", "--threads=1", write("inputs.yml", FORMS + "train_on_inputs: true\n"), "--gpus=1", "--global-batch=4", "--precision=fp32",
           "--method=lora").stdout
found = fates(said)
check("train_on_inputs is in the commands that make rows", found["train_on_inputs"][0] == "taken" and "--plain --train-on=all" in found["datasets[0].path"][1] and
      "--train-on" not in found["datasets[2].path"][1], found)
for name, old, new in (("type", "type: alpaca", "type: gpteacher"), ("type.field_output", "type: alpaca", "type:\n      field_output: answer"), ("field", "field: text", "field: body"),
                       ("roles_to_train", "[assistant]", "[assistant, user]"), ("train_on_eos", "train_on_eos: turn", "train_on_eos: last"), ("split", "field: text", "split: train[:10%]"),
                       ("field_messages", "field_messages: conversations", "field_messages: turns"), ("roles.assistant", "[gpt, model]", "[gpt, oracle]"),
                       ("message_property_mappings.content", "content: value", "content: said"), ("chat_template", "chat_template: jinja", "chat_template: chatml")):
    refused = plan(write("refused.yml", FORMS.replace(old, new)), expect=2).stderr
    check(f"of a set, {name} is refused by its place", re.search(r"ztc has nothing for datasets\[\d\]\." + re.escape(name) + ";", refused), refused)
for field, option, value in (("sequence_len", "seq", "many"), ("sequence_len", "seq", "-1"), ("micro_batch_size", "batch", "0"), ("micro_batch_size", "batch", "1.5"), ("learning_rate", "lr", "fast"),
                             ("gradient_accumulation_steps", "accumulate", "1e30"), ("num_epochs", "epochs", "0")):
    done = plan(write("number.yml", f"base_model: x\n{field}: {value}\n"), expect=2)
    check(f"{field}: {value} is refused with the numbers that there are", f"nothing for {field};" in done.stderr and f"--{option} takes " in fates(done.stdout)[field][1], (done.stdout, done.stderr))
done = plan(write("stage.json", {"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 99}}), expect=2)
check("a ZeRO stage that there is not is refused", fates(done.stdout)["zero_optimization.stage"][1] == "--zero takes whole numbers from 0 to 3", done.stdout)
done = plan(write("nothing.yml", "base_model: x\nsequence_len: null\n"))
check("a number that asks for nothing is the default", fates(done.stdout)["sequence_len"][0] == "not needed", done.stdout)
refused = plan(write("expression.yml", SETS.replace("[q_proj, v_proj]", "'.*(q|v)_proj'")), expect=2).stderr
check("modules by an expression are refused", "lora_target_modules" in refused, refused)

# What there is nothing for is named, all of it, and may be left out.
odd = write("odd.json", {**ARGUMENTS, "label_smoothing_factor": 0.1, "neftune_noise_alpha": 5})
said = plan(odd, "--precision=fp32", "--seq=16", expect=2)
check("what is not there is refused by name", "label_smoothing_factor, neftune_noise_alpha" in said.stderr and "--ignore" in said.stderr, said.stderr)
said = plan(odd, "--ignore=label_smoothing_factor", "--ignore=neftune_noise_alpha", "--precision=fp32", "--seq=16")
check("and left out where that is said", fates(said.stdout)["neftune_noise_alpha"][0] == "not there")
for name, word in (("neftune_noise_alfa", "did you mean neftune_noise_alpha?"), ("moon", "what may be left out is label_smoothing_factor, neftune_noise_alpha"), ("learning_rate", "that field is taken (ztc-run --lr=")):
    said = plan(odd, f"--ignore={name}", "--precision=fp32", "--seq=16", expect=2)
    check(f"--ignore={name} is refused", f"--ignore={name}: " in said.stderr and word in said.stderr, said.stderr)
said = run("ztc", "plan", model, "--gpu=host", "--mem=64MiB", "--ignore=moon", expect=2)
check("--ignore without a file is refused", "there is no --config" in said.stderr, said.stderr)
nested = write("nested.json", {"train_micro_batch_size_per_gpu": 1, "curriculum": {"enabled": True, "params": {"min": 8}}, "elasticity": [{"enabled": True}], "curricula": 3})
said = plan(nested, "--precision=fp32", "--seq=16", "--ignore=curriculum", "--ignore=elasticity", expect=2)
check("--ignore covers what is in a field, and no other", "nothing for curricula;" in said.stderr, said.stderr)
plan(nested, "--precision=fp32", "--seq=16", "--ignore=curriculum.enabled", "--ignore=curriculum.params", "--ignore=elasticity[0]", "--ignore=curricula")
for name, text, word in (("list.json", "[1, 2]", "no mapping"), ("broken.json", '{"a": ', "broken.json"), ("other.json", {"a": 1}, "neither")):
    said = plan(write(name, text), expect=2)
    check(f"{name} is refused", word in said.stderr and said.stderr.count("\n") == 1, said.stderr)
said = plan(f"--config={work / 'nowhere.json'}", expect=2)
check("a file that is not there is refused", "nowhere.json" in said.stderr, said.stderr)
finish()
