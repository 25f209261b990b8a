#!/usr/bin/env python3
"""Training in fp8 with delayed scaling as PyTorch computes it: rewrites tests/golden/fp8/delayed.json and *-delayed.safetensors.

  pip install -r tests/golden/requirements.txt
  python tests/golden/fp8_delayed.py

Model, data and arithmetic are those of fp8.py, of the folder that it has made; another scale is all that differs. What TransformerEngine's DelayedScaling does with
amax_history_len=1, margin=0, written out for a processor, but for its begin and its weights:
- what a layer reads, and the cotangent of its result, are scaled by the absolute maximum m that they had in the step before: scale = largest number of the format / m
  in float64, rounded to float32; codes beyond the largest number are that number;
- the maximum of this step, before anything is cut, is the m of the next; one that is 0 or not finite leaves the one before;
- the first step is computed three times before it counts, each time with the maxima of the time before and without an update; the first of the three has a scale of 1;
- a weight is scaled by its own maximum.
`fused` layers have one input and one cotangent: the maximum stands under the name of each of their weights.

`cut`: the maxima that step 4 is given are an eighth of what they were, so that all that is larger is cut: a way that only delayed scaling has.

delayed.json has for each way losses, norms, the absolute maxima that the first step leaves (`maxima`; later ones are single elements of runs that have parted), how far PyTorch is off its
fp32 (own_differences), and off itself where attention is computed by others of its ways, eager and sdpa's `math`, the larger of the two (other_attention). *-delayed.safetensors: the gradients of step 0, of `cut` those
of step 4.
"""
import json
import math

import torch
import transformers
from fp8 import CONFIG, FOLDER, differences, quantize, train
from safetensors.torch import load_file, save_file
from torch.nn.attention import SDPBackend, sdpa_kernel

CUT_STEP, CUT = 4, 0.125


class DelayedScales:
    """`cut` is what the maxima are multiplied by before step `cut_step`."""

    def __init__(self, cut_step=None):
        self.known, self.found, self.after, self.cut_step = {}, {}, [], cut_step

    def codes(self, x, kind, layers, role):
        names = [f"{layer}.{role}" for layer in layers]
        largest = torch.finfo(kind).max
        known = self.known.get(names[0], 0.0)
        scale = torch.tensor(largest / max(known, 1e-12) if known else 1.0, dtype=torch.float64).to(torch.float32)
        for name in names:
            assert self.known.get(name, 0.0) == known and name not in self.found
            self.found[name] = x.abs().max().item()
        return (x.to(torch.float32) * scale).clamp(-largest, largest).to(kind), scale.reciprocal()

    def take(self):
        self.known |= {name: m for name, m in self.found.items() if 0 < m < math.inf}
        self.found = {}

    def begin(self, compute):
        for _ in range(3):
            compute()
            self.take()

    def advance(self):
        self.take()
        self.after.append(dict(self.known))
        if len(self.after) == self.cut_step:
            self.known = {name: m * CUT for name, m in self.known.items()}


def run(model, way, ids, labels, cut_step, attention="sdpa"):
    scales = DelayedScales(cut_step)
    return *train(model, way, ids, labels, attention, scales, gradients_of=cut_step or 0), scales.after


def maxima_difference(maxima, expected):
    return max(abs(maxima[name] - m) / m for name, m in expected.items())


def other_attention(expected, *what):
    runs = [run(*what, attention="eager")]
    with sdpa_kernel(SDPBackend.MATH):
        runs.append(run(*what))
    found = [differences(x[:3], expected[:3]) | {"maxima": maxima_difference(x[3][0], expected[3][0])} for x in runs]
    return {key: max(x[key] for x in found) for key in found[0]}


def hold_against_dynamic():
    """A known maximum that is the matrix's own gives the codes of dynamic scaling."""
    x = torch.randn(48, 64, generator=torch.Generator().manual_seed(4)).bfloat16()
    for kind in (torch.float8_e4m3fn, torch.float8_e5m2):
        scales = DelayedScales()
        scales.codes(x, kind, ["x"], "input")
        scales.take()
        mine, theirs = scales.codes(x, kind, ["x"], "input"), quantize(x, kind)
        assert torch.equal(mine[0].view(torch.uint8), theirs[0].view(torch.uint8)) and mine[1] == theirs[1]


def main():
    torch.set_num_threads(1)
    model = transformers.AutoModelForCausalLM.from_config(CONFIG, dtype=torch.float32).eval()
    model.load_state_dict({name: x.float() for name, x in load_file(FOLDER / "model.safetensors").items()})
    data = load_file(FOLDER / "data.safetensors")
    ids, labels = data["input_ids"], data["labels"]
    hold_against_dynamic()
    exact = {step: train(model, "fp32", ids, labels, gradients_of=step) for step in (0, CUT_STEP)}
    golden = {"torch": torch.__version__.split("+")[0], "transformers": transformers.__version__, "cut_step": CUT_STEP, "cut": CUT}
    for kind in ("e5m2", "e4m3", "e5m2-fused", "e4m3-fused"):
        for cut_step in (None, CUT_STEP) if kind.endswith("-fused") else (None,):
            way = f"{kind}-cut" if cut_step else kind
            what = model, kind, ids, labels, cut_step
            found = run(*what)
            golden[way] = {"losses": found[0], "gradient_norms": found[1], "own_differences": differences(found[:3], exact[cut_step or 0]),
                           "other_attention": other_attention(found, *what), "maxima": found[3][0]}
            save_file(found[2], FOLDER / f"{way}-delayed.safetensors")
            print(way, golden[way]["own_differences"], golden[way]["other_attention"])
    (FOLDER / "delayed.json").write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()
