#!/usr/bin/env python3
"""Text of a model with a tokenizer: special tokens in prompts, the end of a text, sampling with a seed, prompts from a file."""
import json

from support import check, finish, run, scratch, write_tiny_llama

WORDS = ["the", "cat", "sat", "on", "mat", "\u00e9t\u00e9"]

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
               "--export", work / "trained", env=environment)
    check("it learns two sentences", done.returncode == 0, done.stderr)

    def generate(*options, expect=0):
        return run("ztc-run", work / "plan.bin", "--device=cpu", "--weights", work / "trained", "--tokenizer", work / "model", "--generate=12", *options, env=environment, expect=expect)

    def text(*options):
        return generate(*options).stdout
    check("a text ends where the model ends it", text("--prompt=the cat") == "the cat sat on the mat\n", repr(text("--prompt=the cat")))
    other = text("--prompt=<stop>")
    check("special tokens in a prompt are such; each end of generation_config.json ends", other == "<stop> \u00e9t\u00e9 \u00e9t\u00e9 \u00e9t\u00e9\n", repr(other))
    (work / "prompts.txt").write_text("the cat\n\n<stop>\n")
    (work / "prompts.jsonl").write_text(json.dumps({"prompt": "the cat"}) + "\n" + json.dumps("<stop>") + "\n")
    both = [text("--prompt-file", work / name) for name in ("prompts.txt", "prompts.jsonl")]
    check("prompts from files", both == ["the cat sat on the mat\n" + other] * 2, str(both))
    hot = [text("--prompt=the", "--temperature=50", f"--seed={seed}") for seed in (1, 1, 2, 3, 4, 5)]
    check("sampling: the same for the same seed, other texts for others", hot[0] == hot[1] and len(set(hot)) >= 3, str(hot))
    check("the one likeliest token is the greedy choice", text("--prompt=the cat", "--temperature=5", "--top-k=1") == text("--prompt=the cat"))
    for options, said in ((["--prompt=a", "--top-k=3"], "--top-k has no effect without --temperature"), (["--prompt=a", "--temperature=-1"], "--temperature: a finite number"),
                          (["--prompt=a", "--temperature=1", "--top-p=0"], "--top-p: more than 0"), (["--prompt=a", "--prompt-file=x"], "exclude each other")):
        done = generate(*options, expect=2)
        check(f"{options}: {said}", said in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr)
    done = generate("--prompt-file", work / "none.txt", expect=1)
    check("a file that is not there is said", "none.txt" in done.stderr, done.stderr)
finish()
