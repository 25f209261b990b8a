#!/usr/bin/env python3
"""Text of a model with a tokenizer: special tokens in prompts, the end of a text, sampling with a seed, prompts from a file."""
import collections
import json
import math
import sys

from support import ROOT, check, finish, read_log, run, scratch, write_tiny_llama

sys.path.insert(0, str(ROOT / "tests/e2e/text"))
from tiny_llama import TinyLlama

WORDS = ["the", "cat", "sat", "on", "mat", "\u00e9t\u00e9"]


def filtered(row, temperature, top_k, top_p):
    """Token -> probability, by temperature, top-k and top-p in transformers' order and with its edges."""
    scaled = {token: logit / temperature for token, logit in enumerate(row)}
    kept = sorted(scaled, key=lambda token: -scaled[token])[:top_k]
    total = sum(math.exp(scaled[token]) for token in kept)
    chosen, share = {}, 0.0
    for token in kept:
        if chosen and share >= top_p:
            break
        chosen[token] = math.exp(scaled[token]) / total
        share += chosen[token]
    return {token: probability / share for token, probability in chosen.items()}


with scratch() as work:
    write_tiny_llama(work / "model", vocabulary=12)
    tokens = ["<unk>", "<s>", "</s>", "<stop>", *("\u2581" + word for word in WORDS)]
    (work / "model/tokenizer.json").write_text(json.dumps({
        "added_tokens": [{"id": i, "content": text, "special": True, "normalized": False} for i, text in enumerate(tokens[:4])],
        "pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first"}, "decoder": {"type": "Metaspace", "replacement": "\u2581"},
        "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}],
                           "special_tokens": {"<s>": {"ids": [1]}}},
        "model": {"type": "WordLevel", "unk_token": "<unk>", "vocab": {text: i for i, text in enumerate(tokens)}}}))
    (work / "model/tokenizer_config.json").write_text(json.dumps({"eos_token": "</s>"}))
    (work / "model/generation_config.json").write_text(json.dumps({"eos_token_id": [2, 3]}))
    done = run("ztc", "compile", work / "model", "--batch=2", "--seq=16", "--target=host", "--precision=fp32", "-o", work / "plan.bin")
    check("the model compiles", done.returncode == 0)
    environment = {"HOME": str(work)}
    (work / "text.jsonl").write_text("".join(json.dumps({"text": "the cat sat on the mat" if i % 2 else "<stop> \u00e9t\u00e9 \u00e9t\u00e9 \u00e9t\u00e9<stop>"}) + "\n"
                                             for i in range(60)))
    done = run("ztc-run", work / "plan.bin", "--data", work / "text.jsonl", "--tokenizer", work / "model", "--steps=200", "--lr=2e-2", "--weight-decay=0",
               "--export", work / "trained", "--export-dtype=fp32", env=environment)
    check("it learns two sentences", done.returncode == 0, done.stderr)

    def generate(*options, expect=0, weights=work / "trained"):
        return run("ztc-run", work / "plan.bin", "--device=cpu", "--weights", weights, "--tokenizer", work / "model", *([] if any("--generate" in str(x) for x in options) else ["--generate=12"]), *options, env=environment, expect=expect)

    def text(*options):
        return generate(*options).stdout
    check("a text ends where the model ends it", text("--prompt=the cat") == "the cat sat on the mat\n", repr(text("--prompt=the cat")))
    other = text("--prompt=<stop>")
    check("special tokens in a prompt are such; each end of generation_config.json ends", other == "<stop> \u00e9t\u00e9 \u00e9t\u00e9 \u00e9t\u00e9\n", repr(other))
    (work / "prompts.txt").write_text("the cat\n\n<stop>\n")
    (work / "prompts.jsonl").write_text(json.dumps({"prompt": "the cat"}) + "\n" + json.dumps("<stop>") + "\n")
    both = [[json.loads(line) for line in text("--prompts", work / name).splitlines()] for name in ("prompts.txt", "prompts.jsonl")]
    wanted = [{"prompt": "the cat", "text": " sat on the mat", "tokens": 4, "ended_by": "stop"},
              {"prompt": "<stop>", "text": other[len("<stop>"):-1], "tokens": 3, "ended_by": "stop"}]
    check("prompts from files: a JSON object each", both == [wanted] * 2, str(both))
    short = json.loads(generate("--prompts", work / "prompts.txt", "--generate=2").stdout.splitlines()[0])
    check("a text that is cut says so", short["ended_by"] == "length" and short["tokens"] == 2 and short["text"] == " sat on", str(short))
    hot = [text("--prompt=the", "--temperature=50", f"--seed={seed}") for seed in (1, 1, 2, 3, 4, 5)]
    check("sampling: the same for the same seed, other texts for others", hot[0] == hot[1] and len(set(hot)) >= 3, str(hot))
    check("the one likeliest token is the greedy choice", text("--prompt=the cat", "--temperature=5", "--top-k=1") == text("--prompt=the cat"))

    # Each place of a file has random numbers of its own: many places are many draws from the distribution that the filters leave.
    model = TinyLlama(work / "trained")
    many = 1500
    (work / "many.txt").write_text("the cat\n" * many)
    row = model.logits([1, 4, 5])[-1][:len(tokens)]
    spread = (max(row) - sorted(row)[len(row) // 2]) / 2
    for factor, top_k, top_p in ((1, 10, 1.0), (2, 5, 1.0), (3, 10, 0.7), (3, 6, 0.8)):
        temperature = factor * spread
        lines = generate("--prompts", work / "many.txt", "--generate=1", f"--temperature={temperature!r}", f"--top-k={top_k}", f"--top-p={top_p}", "--seed=7").stdout.splitlines()
        # What has no text, ends of it too, counts together; so does what is drawn too seldom for a statistic.
        drawn, share = collections.Counter(json.loads(line)["text"].strip() for line in lines), collections.Counter()
        for token, probability in filtered(row, temperature, top_k, top_p).items():
            share[tokens[token].strip("\u2581") if token > 3 else ""] += probability
        seldom = {text for text, p in share.items() if many * p < 5}
        groups = [{text} for text in share if text not in seldom] + ([seldom] if seldom else [])
        square = sum((sum(drawn[text] for text in group) - many * p) ** 2 / (many * p) for group in groups for p in [sum(share[text] for text in group)])
        check(f"temperature {temperature:.2f}, top-k {top_k}, top-p {top_p}: the shares that the filters leave", set(drawn) <= set(share) and sum(drawn.values()) == many
              and len(groups) > 1 and square < 40, (round(square, 2), dict(drawn), dict(share)))

    # Several texts at a time, with and without a cache: each is what it is alone, wherever the others end.
    (work / "varied.txt").write_text("".join(" ".join(WORDS[(i + k) % 5] for k in range(1 + i % 8)) + "\n" for i in range(40)))
    found, plans = {}, {}
    for kind, options in (("one", ["--batch=1"]), ("one with a cache", ["--batch=1", "--generate"]), ("three", ["--batch=3"]), ("three with a cache", ["--batch=3", "--generate"])):
        plans[kind] = work / f"{kind.replace(' ', '-')}.bin"
        run("ztc", "compile", work / "model", *options, "--seq=16", "--target=host", "--precision=fp32", "-o", plans[kind])
        for sampling in ([], [f"--temperature={3 * spread!r}", "--seed=7"]):
            done = run("ztc-run", plans[kind], "--device=cpu", "--weights", work / "trained", "--tokenizer", work / "model", "--prompts", work / "varied.txt", "--generate=10", *sampling, env=environment)
            found[kind, len(sampling)] = [json.loads(line) for line in done.stdout.splitlines()]
    lengths = {x["tokens"] for x in found["one", 2]}
    check("they end in many places, by themselves and by their length", len(lengths) > 5 and {x["ended_by"] for x in found["one", 2]} == {"stop", "length"}, lengths)
    for (kind, sampled), texts in found.items():
        check(f"{kind}, {'sampled' if sampled else 'greedy'}: the texts of one at a time", texts == found["one", sampled] and len(texts) == 40, texts[:3])

    # Samples while it learns change nothing.
    train = [work / "plan.bin", "--device=cpu", "--threads=1", "--data", work / "text.jsonl", "--tokenizer", work / "model", "--steps=20", "--lr=2e-2", "--overwrite"]
    plain, sampled = work / "plain.log", work / "sampled.log"
    run("ztc-run", *train, "--accumulate=2", "--export", work / "plain", f"--log-json={plain}", env=environment)
    done = run("ztc-run", *train, "--accumulate=2", "--export", work / "sampled", f"--log-json={sampled}", "--sample-every=8", "--sample-prompt=the cat", "--sample-prompt=<stop>",
               "--sample-tokens=5", "--temperature=0.5", env=environment)
    lines = [json.loads(line) for line in sampled.read_text().splitlines()]
    samples = [line for line in lines if line.get("event") == "sample"]
    check("samples every 8 steps and at the end", [(x["step"], x["prompt"]) for x in samples] == [(step, prompt) for step in (8, 16, 20) for prompt in ("the cat", "<stop>")], samples)
    check("they are printed", all(f'after {x["step"]} steps: "{x["prompt"]}" goes on: {x["text"]}' in done.stdout for x in samples), done.stdout[-1500:])
    losses = [[(x["loss"], x["grad_norm"]) for x in read_log(log)[1]] for log in (plain, sampled)]
    weights = [(work / name / "model.safetensors").read_bytes() for name in ("plain", "sampled")]
    check("the run has the same bits with and without samples", losses[0] == losses[1] and weights[0] == weights[1])
    for kind in ("three", "three with a cache"):
        done = run("ztc-run", plans[kind], *train[1:], f"--export={work / kind.replace(' ', '-')}", f"--log-json={work / 'rows.log'}", "--sample-every=8", "--sample-prompt=the cat",
                   "--sample-prompt=<stop>", "--sample-tokens=5", env=environment)
        head, steps = read_log(work / "rows.log")
        check(f"{kind}: memory is as predicted", head["allocated_bytes"] == head["predicted_bytes"] == sum(head["by_class"].values()), head)
        found[kind] = [(x["loss"], x["grad_norm"]) for x in steps], (work / kind.replace(" ", "-") / "model.safetensors").read_bytes(), [x["text"] for x in map(json.loads, (work / "rows.log").read_text().splitlines()) if x.get("event") == "sample"]
    check("samples of several rows change nothing either, and are the same with a cache", found["three"] == found["three with a cache"], (found["three"][2], found["three with a cache"][2]))
    last = generate("--prompts", work / "prompts.txt", "--generate=5", "--temperature=0.5", weights=work / "sampled").stdout.splitlines()
    check("the last sample is the text of the trained model", [json.loads(line)["text"] for line in last] == [x["text"] for x in samples[-2:]], last)
    done = run("ztc-run", *train, "--no-save", "--sample-every=8", env=environment, expect=2)
    check("samples need a prompt", "--sample-every has no effect without --sample-prompt" in done.stderr, done.stderr)

    for options, said in ((["--prompt=a", "--top-k=3"], "--top-k has no effect without --temperature"), (["--prompt=a", "--temperature=-1"], "--temperature: a finite number"),
                          (["--prompt=a", "--temperature=1", "--top-p=0"], "--top-p: more than 0"), (["--prompt=a", "--prompts=x"], "cannot be used together")):
        done = generate(*options, expect=2)
        check(f"{options}: {said}", said in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr)
    done = generate("--prompts", work / "none.txt", expect=1)
    check("a file that is not there is said", "none.txt" in done.stderr, done.stderr)
finish()
