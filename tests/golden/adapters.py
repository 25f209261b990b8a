#!/usr/bin/env python3
"""Goldens of adapters, by PEFT, on the folders of tests/folders.

  pip install -r tests/golden/requirements.txt
  python tests/golden/adapters.py [NAME...]     # rewrites tests/golden/adapters/NAME/
  python tests/golden/adapters.py bf16          # rewrites bf16.json of those that have one

bf16.json: how far PEFT's own run in bf16 (frozen weights, factors and activations; masters of the factors and the optimizer in fp32) is off its fp32 run from the
same tensors: the largest over all steps of losses (absolute) and gradient norms (relative), the largest of the first step's gradients (relative, by their norms).
Of a mixture gradients of further batches count, and there is `other_choices`: for each step, loss and gradient norm of the fp32 run where one token takes its next
expert instead of its last one, for each token to which the scores of both are nearer than bf16 tells apart. One such choice moves a loss by more than all roundings do
(gpt-oss here: two scores 1.4e-3 apart, of a step of 8e-3 in bf16; the other expert adds 1.7e-2), so each step is held to the run with its own choices.

Each: adapter_config.json and adapter_model.safetensors as PEFT saves them (the start: A and B random, so that every gradient is there), golden.json: the folder,
losses and gradient norms over its batches, the norm of each gradient under PEFT's names, final norms. fp32; batches, optimizer and schedule are the folder's own.
Where a case says `quantize`, the frozen weights of all linear modules but the head are what bitsandbytes makes of them in so few bits, as numbers.
"""
import json
import logging
import math
import pathlib
import sys
import warnings
import zlib

warnings.filterwarnings("ignore")
import bitsandbytes
import peft
import torch
import transformers
from safetensors.torch import load_file

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "folders"))
import make  # noqa: E402

logging.disable(logging.WARNING)
ATTENTION, ALL = ["q_proj", "k_proj", "v_proj", "o_proj"], "all-linear"

# name: (folder, options of LoraConfig)
CASES = {
    "list": ("llama3-defaults", dict(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj", "down_proj"])),
    "patterns": ("llama-heads", dict(r=4, lora_alpha=6, target_modules=ALL, use_rslora=True, rank_pattern={"q_proj": 2, r"layers\.1\.mlp\.\w+": 6}, alpha_pattern={"o_proj": 3})),
    "biases": ("llama-heads", dict(r=3, lora_alpha=5, target_modules=r".*\.(self_attn|mlp)\.(?!k_proj)\w+_proj", bias="all", lora_bias=True)),
    "layers": ("llama-heads", dict(r=2, lora_alpha=2, target_modules=ATTENTION, layers_to_transform=[1], layers_pattern="layers", exclude_modules=["o_proj"], bias="lora_only")),
    "fused": ("phi3-short", dict(r=4, lora_alpha=8, target_modules=ALL)),
    "conv1d": ("gpt2", dict(r=4, lora_alpha=8, target_modules=["c_attn", "mlp.c_proj", "c_fc"], fan_in_fan_out=True)),
    "embedding": ("qwen2", dict(r=3, lora_alpha=4, target_modules=["embed_tokens", "q_proj", "lm_head"])),
    "head-bias": ("codegen", dict(r=2, lora_alpha=3, target_modules=["qkv_proj", "lm_head"])),
    "tied": ("qwen2-unused-window", dict(r=3, lora_alpha=4, target_modules=["embed_tokens", "up_proj"])),
    "saved": ("qwen3", dict(r=2, lora_alpha=4, target_modules=["q_proj"], modules_to_save=["embed_tokens", "lm_head", "norm"])),
    "saved-inside": ("llama-heads", dict(r=2, lora_alpha=4, target_modules=["q_proj", "down_proj"], modules_to_save=["mlp"])),
    "nf4": ("llama3-defaults", dict(r=4, lora_alpha=8, target_modules=ALL), "nf4"),
    "nf4-fused": ("phi3-short", dict(r=4, lora_alpha=8, target_modules=["qkv_proj", "down_proj"]), "nf4"),
    "nf4-conv1d": ("gpt2", dict(r=4, lora_alpha=8, target_modules=["c_attn", "c_fc"], fan_in_fan_out=True), "nf4"),
    "int8-conv1d": ("gpt2", dict(r=4, lora_alpha=8, target_modules=["c_attn", "mlp.c_proj"], fan_in_fan_out=True), "int8"),
    "int8": ("llama-heads", dict(r=4, lora_alpha=8, target_modules=ALL), "int8"),
    "dora": ("llama-heads", dict(r=4, lora_alpha=6, target_modules=ALL, use_dora=True, use_rslora=True, rank_pattern={"q_proj": 2}, bias="all")),
    "dora-fused": ("phi3-short", dict(r=4, lora_alpha=8, target_modules=["qkv_proj", "down_proj"], use_dora=True)),
    "dora-conv1d": ("gpt2", dict(r=4, lora_alpha=8, target_modules=["c_attn", "mlp.c_proj", "c_fc"], fan_in_fan_out=True, use_dora=True)),
    "dora-embedding": ("qwen2", dict(r=3, lora_alpha=4, target_modules=["embed_tokens", "q_proj", "lm_head"], use_dora=True)),
    "dora-nf4": ("llama3-defaults", dict(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj", "down_proj"], use_dora=True), "nf4"),
    "tokens": ("qwen2", dict(r=3, lora_alpha=4, target_modules=["q_proj"], trainable_token_indices=[3, 17, 5, 40])),
    "tokens-named": ("llama-heads", dict(r=2, lora_alpha=4, target_modules=["v_proj"], trainable_token_indices={"embed_tokens": [1, 2, 30]}, use_dora=True)),
    "tokens-padding": ("llama-heads", dict(r=2, lora_alpha=4, target_modules=["v_proj"], trainable_token_indices=[30, 0, 7])),
    "tokens-head": ("qwen2-unused-window", dict(r=3, lora_alpha=4, target_modules=["q_proj"], trainable_token_indices=[41, 3, 17, 96])),
    "tokens-head-padding": ("gemma2", dict(r=2, lora_alpha=4, target_modules=["v_proj"], trainable_token_indices={"embed_tokens": [7, 0, 30]})),
    "experts": ("qwen3-moe", dict(r=3, lora_alpha=5, target_modules=["q_proj"], target_parameters=["mlp.experts.gate_up_proj", "mlp.experts.down_proj"])),
    "experts-inner": ("mixtral", dict(r=2, lora_alpha=3, target_modules=["v_proj"], target_parameters=["experts.gate_up_proj"], use_rslora=True,
                                      rank_pattern={"experts.gate_up_proj": 4})),
    "router-saved": ("mixtral", dict(r=2, lora_alpha=3, target_modules=["v_proj"], modules_to_save=["gate"])),
    "router": ("mixtral", dict(r=2, lora_alpha=3, target_modules=["v_proj"], target_parameters=["gate.weight"], rank_pattern={"gate.weight": 3})),
    "router-all": ("qwen3-moe", dict(r=2, lora_alpha=3, target_modules=ALL)),
    "linear-alone": ("qwen2-moe", dict(r=2, lora_alpha=3, target_modules=ALL)),  # parameters of transformers 5, which PEFT has no mapping of
    "shared-experts": ("hy-v3", dict(r=2, lora_alpha=3, target_modules=ALL)),  # the checkpoint calls them otherwise
    "shared-expert": ("laguna", dict(r=2, lora_alpha=3, target_modules=ALL, modules_to_save=["shared_experts"])),
    "shared-beside": ("step3p7", dict(r=2, lora_alpha=3, target_modules=r".*language_model.*(self_attn|shared_experts)\.(q_proj|g_proj|up_proj|down_proj)")),  # the checkpoint has it beside the mixture
    "latents": ("mistral-large4", dict(r=2, lora_alpha=3, target_modules=r".*language_model.*\.([qo]_proj|kv_a_proj_with_mqa|kv_b_proj|gate_proj|down_proj)")),  # and all modules otherwise
    "stacks": ("gpt-oss", dict(r=3, lora_alpha=5, target_modules=["q_proj"], target_parameters=["mlp.experts.gate_up_proj", "mlp.experts.down_proj"])),
    "stacks-all": ("gpt-oss", dict(r=3, lora_alpha=5, target_modules=["q_proj"], target_parameters=["mlp.experts.gate_up_proj", "mlp.experts.down_proj"])),
    "stacks-swapped": ("llama4", dict(r=2, lora_alpha=3, target_modules=["v_proj"], target_parameters=["experts.gate_up_proj", "feed_forward.experts.down_proj"], use_rslora=True)),
    "stacks-renamed": ("granite-shared", dict(r=2, lora_alpha=3, target_modules=["v_proj"], target_parameters=["block_sparse_moe.experts.down_proj"],
                                              rank_pattern={"experts.down_proj": 3})),
    "rates": ("llama3-defaults", dict(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj", "down_proj"], modules_to_save=["norm"])),
    "multi-modal": ("gemma3-vision", dict(r=3, lora_alpha=4, target_modules=r".*language_model.*\.(q_proj|down_proj)")),
    "multi-modal-head": ("qwen2-vl", dict(r=2, lora_alpha=4, target_modules=r"(.*language_model.*\.(v_proj|up_proj))|lm_head")),
    "multi-modal-fused": ("glm4v", dict(r=2, lora_alpha=4, target_modules=r".*language_model.*\.(q_proj|gate_up_proj)")),
    "multi-modal-experts": ("ernie4_5-vl", dict(r=2, lora_alpha=3, target_modules=r".*language_model.*\.(v_proj|shared_experts.up_proj)")),
    "multi-modal-thinks": ("qwen3-omni", dict(r=2, lora_alpha=3, target_modules=["gate_proj", "up_proj", "down_proj"])),
    "soft-caps": ("gemma2", dict(r=3, lora_alpha=6, target_modules=ALL)),
    "parallel": ("gpt-neox", dict(r=4, lora_alpha=8, target_modules=["query_key_value", "dense_4h_to_h"])),
    "own-prefix": ("gpt-neox-japanese", dict(r=2, lora_alpha=3, target_modules=["query_key_value", "dense"])),
    "latent": ("deepseek-v3", dict(r=2, lora_alpha=4, target_modules=["q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj"])),
    "layer-inputs": ("gemma4", dict(r=2, lora_alpha=4, target_modules=ALL)),  # gates and projections of layers' inputs; keys that two layers read
    "values-are-keys": ("gemma4-experts", dict(r=2, lora_alpha=4, target_modules=ALL)),
    "streams": ("gemma3n", dict(r=1, lora_alpha=2, target_modules=ALL, exclude_modules=["correction_coefs"])),  # while transformers trains it passes over adapters of these
    "convolutions": ("lfm2", dict(r=2, lora_alpha=4, target_modules=ALL, bias="all")),
    "convolutions-gates": ("lfm3", dict(r=2, lora_alpha=3, target_modules=ALL)),  # the checkpoint calls gates otherwise
    "convolutions-experts": ("lfm2-moe", dict(r=2, lora_alpha=3, target_modules=["in_proj", "out_proj", "w1"], modules_to_save=["conv.conv"])),
    "delta": ("qwen3-next", dict(r=2, lora_alpha=3, target_modules=ALL)),
    "delta-parts": ("qwen3-5", dict(r=2, lora_alpha=4, target_modules=["in_proj_qkv", "in_proj_z", "in_proj_a", "in_proj_b", "out_proj", "q_proj"], modules_to_save=["linear_attn.norm"])),
    "delta-experts": ("qwen3-5-moe", dict(r=2, lora_alpha=3, target_modules=r".*language_model.*\.(in_proj_qkv|q_proj|out_proj)")),
    "delta-apart": ("olmo-hybrid", dict(r=2, lora_alpha=4, target_modules=ALL)),
    "delta-rows": ("kimi-linear", dict(r=2, lora_alpha=3, target_modules=ALL)),  # modules that checkpoints have elsewhere
    "states": ("granite-hybrid", dict(r=2, lora_alpha=3, target_modules=ALL)),
    "states-beside": ("falcon-h1", dict(r=2, lora_alpha=3, target_modules=["in_proj", "q_proj", "o_proj", "gate_proj", "down_proj"])),
    "states-apart": ("nemotron-h", dict(r=2, lora_alpha=3, target_modules=["q_proj", "in_proj", "up_proj", "down_proj"])),
    "dora-int8": ("llama-heads", dict(r=4, lora_alpha=8, target_modules=["k_proj", "o_proj", "up_proj"], use_dora=True), "int8"),
}


# name: factors of the learning rate (--lr-of), by parts of names
RATES = {"rates": {"lora_B": 16.0, "q_proj.lora_A": 0.5, "norm": 4.0}}
# name: what the folder's config.json says otherwise. With all experts for every token no rounding chooses others.
CONFIGS = {"stacks-all": {"num_experts_per_tok": 3}, "tokens-padding": {"pad_token_id": 0}, "tokens-head-padding": {"pad_token_id": 0}}


def quantized(weight, form):
    if form == "nf4":
        codes, state = bitsandbytes.functional.quantize_4bit(weight.contiguous(), quant_type="nf4", blocksize=64, compress_statistics=True)
        return bitsandbytes.functional.dequantize_4bit(codes, state).reshape(weight.shape)
    codes, scales, _ = bitsandbytes.functional.int8_vectorwise_quant(weight.contiguous())
    return bitsandbytes.functional.int8_vectorwise_dequant(codes, scales)


def build(name):
    folder, options, *form = CASES[name]
    torch.manual_seed(zlib.crc32(name.encode()) % 100000)
    source = HERE.parent / "folders" / folder
    auto = transformers.AutoModelForImageTextToText if "vision_config" in json.loads((source / "config.json").read_text()) else transformers.AutoModelForCausalLM
    base = auto.from_pretrained(source, dtype=torch.float32, **CONFIGS.get(name, {}))
    with torch.no_grad():
        for module in base.modules():
            if form and isinstance(module, (torch.nn.Linear, transformers.pytorch_utils.Conv1D)) and module is not base.get_output_embeddings():
                # As transformers replaces modules: a Conv1D by a linear module, of which bitsandbytes has the transposed matrix.
                turned = isinstance(module, transformers.pytorch_utils.Conv1D)
                module.weight.copy_(quantized(module.weight.data.T, form[0]).T if turned else quantized(module.weight.data, form[0]))
    model = peft.get_peft_model(base, peft.LoraConfig(task_type="CAUSAL_LM", **options))
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            if "lora_magnitude_vector" in parameter_name:
                parameter.mul_(1 + 0.2 * torch.randn(parameter.shape))
            elif "trainable_tokens_delta" in parameter_name:
                parameter.add_(0.05 * torch.randn(parameter.shape))
            elif "lora_" in parameter_name:
                parameter.copy_(0.2 * torch.randn(parameter.shape))
    return model.train()


def save_quantized(folder, out):
    """The folder as transformers saves it when bitsandbytes has quantised it."""
    config = transformers.BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype=torch.float32)
    model = transformers.AutoModelForCausalLM.from_pretrained(HERE.parent / "folders" / folder, quantization_config=config, dtype=torch.float32, device_map="cpu")
    model.save_pretrained(out)
    (out / "generation_config.json").unlink(missing_ok=True)


def saved_name(model, name):
    """The name in PEFT's file of a parameter of the model."""
    for part in (".default", ".modules_to_save"):
        name = name.replace(part, "")
    return name.replace("lora_magnitude_vector.weight", "lora_magnitude_vector")


def is_mixture(name):
    """Whether experts are trained, of which a rounding may choose others."""
    return "target_parameters" in CASES[name][1]


def trainer(parameters, factors=None):
    """`factors`: of the learning rate, of each parameter."""
    parameters = list(parameters)
    groups = [{"params": [p], "weight_decay": make.DECAY if p.ndim >= 2 else 0.0, "factor": f} for p, f in zip(parameters, factors or [1.0] * len(parameters), strict=True)]
    return torch.optim.AdamW(groups, lr=make.LR, betas=make.BETAS, eps=1e-8, foreach=False)


def set_rate(optimizer, step):
    for group in optimizer.param_groups:
        group["lr"] = make.rate(step) * group["factor"]


def clipped(parameters, limit=make.CLIP):
    """The norm of all gradients, which are clipped to `limit`."""
    return torch.nn.utils.clip_grad_norm_(parameters, limit, foreach=False).item()


def record(name):
    folder, _, *form = CASES[name]
    given = json.loads((HERE.parent / "folders" / folder / "golden.json").read_text())
    model = build(name)
    out = HERE / "adapters" / name
    model.save_pretrained(out)
    (out / "README.md").unlink(missing_ok=True)
    config = json.loads((out / "adapter_config.json").read_text()) | {"base_model_name_or_path": None}
    for key in ("target_modules", "target_parameters"):
        if isinstance(config[key], list):
            config[key].sort()
    (out / "adapter_config.json").write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")
    trained = {saved_name(model, n): p for n, p in model.named_parameters() if p.requires_grad}
    stored = load_file(out / "adapter_model.safetensors")
    assert set(trained) <= set(stored), sorted(set(trained) - set(stored))
    optimizer = trainer(trained.values(), [next((f for part, f in RATES.get(name, {}).items() if part in n), 1.0) for n in trained])
    facts = {"folder": folder, "losses": [], "gradient_norms": [], "gradients": {}, "norms": {}, "stored": sorted(stored), "peft": peft.__version__}
    if form:
        facts |= {"quantize": form[0], "bitsandbytes": bitsandbytes.__version__}
    if name in CONFIGS:
        facts["config"] = CONFIGS[name]
    if name in RATES:
        facts["lr_of"] = [f"{part}={factor:g}" for part, factor in RATES[name].items()]
    for step, (ids, labels) in enumerate(zip(given["input_ids"], given["labels"])):
        set_rate(optimizer, step)
        optimizer.zero_grad()
        loss = make.loss_of(model, torch.tensor(ids), torch.tensor(labels))
        loss.backward()
        facts["losses"].append(loss.item())
        facts["gradients"] = facts["gradients"] or {n: p.grad.double().norm().item() for n, p in trained.items()}
        facts["gradient_norms"].append(clipped(list(trained.values())))
        optimizer.step()
    facts["norms"] = {n: p.detach().double().norm().item() for n, p in trained.items()}
    with torch.no_grad():
        facts["final_loss"] = make.loss_of(model, torch.tensor(given["input_ids"][0]), torch.tensor(given["labels"][0])).item()
    if name in ("nf4", "nf4-conv1d"):
        save_quantized(folder, out / "base")
    (out / "golden.json").write_text(json.dumps(facts, indent=1) + "\n")
    print(name, len(trained), facts["losses"][0], facts["losses"][-1], sum(f.stat().st_size for f in out.iterdir()))


class Choices:
    """While it is entered, calls of torch.topk of one forward are kept in `scores`, and one row of one call may take its next column instead of its last one."""

    def __init__(self):
        self.original, self.method, self.other = torch.topk, torch.Tensor.topk, None
        self.scores = []

    def __enter__(self):
        torch.topk, torch.Tensor.topk = self.topk, lambda scores, *k, **more: self.topk(scores, *k, **more)
        return self

    def __exit__(self, *_):
        torch.topk, torch.Tensor.topk = self.original, self.method

    def begin(self, other=None):
        self.scores, self.other = [], other

    def topk(self, scores, k, dim=-1, **more):
        values, indices = self.original(scores, k, dim=dim, **more)
        if k < scores.shape[-1]:
            if self.other and self.other[0] == len(self.scores):
                next_values, next_indices = self.original(scores, k + 1, dim=dim)
                place = tuple(self.other[1]) + (k - 1,)
                values, indices = values.clone(), indices.clone()
                values[place], indices[place] = (x[tuple(self.other[1]) + (k,)] for x in (next_values, next_indices))
            self.scores.append((scores.detach().float(), k))
        return values, indices

    def near(self):
        """(call, row) of all rows whose last choice and the next one bf16 may turn: two scores, and what they are made of, with 8 bits each."""
        found = []
        for call, (scores, k) in enumerate(self.scores):
            values = self.original(scores, k + 1, dim=-1).values
            gaps = values[..., k - 1] - values[..., k]
            found += [(call, place) for place in (gaps <= 2.0**-7 * scores.abs().max()).nonzero().tolist()]
        return found


def other_choices(name, given):
    """By step, (loss, gradient norm) of the fp32 run for each near choice of an expert that turns."""
    model = build(name)
    peft.set_peft_model_state_dict(model, load_file(HERE / "adapters" / name / "adapter_model.safetensors"))
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer, found = trainer(trained), []
    for step, (ids, labels) in enumerate(zip(given["input_ids"], given["labels"])):
        set_rate(optimizer, step)
        with Choices() as choices:
            def run(other=None):
                optimizer.zero_grad()
                choices.begin(other)
                loss = make.loss_of(model, torch.tensor(ids), torch.tensor(labels))
                loss.backward()
                return loss.item()
            run()
            near, turned = choices.near(), []
            for other in near:
                loss = run(other)
                turned.append((loss, clipped(trained, math.inf)))
            found.append(turned)
            run()
        clipped(trained)
        optimizer.step()
    return found


def start_errors(name, given):
    """How far gradients in bf16 are off those in fp32, from the start tensors on each batch that leaves no choice of an expert to a rounding: an expert sees few
    tokens, and one batch says little."""
    def gradients(dtype):
        model = build(name)
        peft.set_peft_model_state_dict(model, load_file(HERE / "adapters" / name / "adapter_model.safetensors"))
        model = model.to(dtype)
        model.get_base_model().set_experts_implementation("eager")
        found = []
        for ids, labels in zip(given["input_ids"], given["labels"]):
            model.zero_grad()
            with Choices() as choices:
                logits = model(input_ids=torch.tensor(ids), use_cache=False).logits.float()
            torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), torch.tensor(labels)[:, 1:].flatten(), ignore_index=-100).backward()
            found.append((not choices.near(), {n: p.grad.double().norm().item() for n, p in model.named_parameters() if p.requires_grad}))
        return found
    errors = [0.0]
    for (is_certain, wide), (_, narrow) in zip(gradients(torch.float32), gradients(torch.bfloat16)):
        largest = max(wide.values())
        errors += [abs(narrow[n] - w) / max(w, 1e-1 * largest) for n, w in wide.items()] if is_certain else []
    return max(errors)


def record_narrow(name):
    folder, *_ = CASES[name]
    out = HERE / "adapters" / name
    given, golden = json.loads((HERE.parent / "folders" / folder / "golden.json").read_text()), json.loads((out / "golden.json").read_text())
    model = build(name)
    peft.set_peft_model_state_dict(model, load_file(out / "adapter_model.safetensors"))
    masters = {saved_name(model, n): p.detach().clone() for n, p in model.named_parameters() if p.requires_grad}
    model = model.to(torch.bfloat16)
    model.get_base_model().set_experts_implementation("eager")  # grouped products in bf16 want rows of 16 bytes
    computing = {saved_name(model, n): p for n, p in model.named_parameters() if p.requires_grad}
    for p in masters.values():
        p.requires_grad_(True)
    optimizer = trainer(masters.values())
    losses, norms, gradients = [], [], None
    for step, (ids, labels) in enumerate(zip(given["input_ids"], given["labels"])):
        set_rate(optimizer, step)
        with torch.no_grad():
            for n, p in computing.items():
                p.copy_(masters[n])
                p.grad = None
        # In fp32 of the logits in bf16, as transformers' own loss is: one in bf16 would have a step of 1/32.
        logits = model(input_ids=torch.tensor(ids), use_cache=False).logits.float()
        loss = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), torch.tensor(labels)[:, 1:].flatten(), ignore_index=-100)
        loss.backward()
        for n, p in computing.items():
            masters[n].grad = p.grad.float()
        gradients = gradients or {n: p.grad.double().norm().item() for n, p in masters.items()}
        losses.append(loss.item())
        norms.append(clipped(list(masters.values())))
        optimizer.step()
    largest = max(golden["gradients"].values())
    others = other_choices(name, given) if is_mixture(name) else [[]] * len(losses)
    # Each step beside the choices that are nearest to its own.
    steps = [min([(w, v), *other], key=lambda x: abs(x[0] - a) + abs(x[1] - b) / x[1]) for w, v, other, a, b in zip(golden["losses"], golden["gradient_norms"], others, losses, norms)]
    errors = {"loss": abs(losses[0] - steps[0][0]), "losses": max(abs(a - w) for a, (w, _) in zip(losses, steps)),
              "gradient_norms": max(abs(a - v) / v for a, (_, v) in zip(norms, steps)),
              "gradients": max(abs(gradients[n] - w) / max(w, 1e-1 * largest) for n, w in golden["gradients"].items())}
    if is_mixture(name):
        errors["gradients"] = max(errors["gradients"], start_errors(name, given))
    if any(others):
        errors["other_choices"] = others
    (out / "bf16.json").write_text(json.dumps(errors, indent=1) + "\n")
    print(name, {key: value for key, value in errors.items() if key != "other_choices"})


# LoRA, beside nf4, between soft caps, and on mixtures, whose experts a rounding may choose otherwise.
NARROW = ("list", "nf4", "soft-caps", "experts", "stacks", "stacks-all", "stacks-swapped", "stacks-renamed")

for case in sys.argv[1:] or [*CASES, "bf16"]:
    if case != "bf16":
        record(case)
    else:
        for narrow in NARROW:
            record_narrow(narrow)
