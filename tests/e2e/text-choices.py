#!/usr/bin/env python3
"""--eval-choices: the probability of each choice, acc and acc_norm, held against the same model in Python; on one rank and on three."""
import json
import math
import random
import sys

from support import ROOT, check, finish, run, scratch, write_tiny_llama

sys.path.insert(0, str(ROOT / "tests/e2e/text"))
from tiny_llama import TinyLlama

SEQ = 24
BEGIN = 1
TOKENS = {"<unk>": 0, "<s>": BEGIN, **{f"\u2581{word}": 2 + i for i, word in enumerate("the cat dog sat ran on a mat \u00e9t\u00e9 green".split())}}


def write_tokenizer(folder):
    """A word is a token; one stands before a text."""
    (folder / "tokenizer.json").write_text(json.dumps({
        "added_tokens": [{"id": i, "content": text, "special": True, "normalized": False} for text, i in (("<unk>", 0), ("<s>", BEGIN))],
        "pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first"}, "decoder": {"type": "Metaspace", "replacement": "\u2581"},
        "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}],
                           "special_tokens": {"<s>": {"ids": [BEGIN]}}},
        "model": {"type": "WordLevel", "unk_token": "<unk>", "vocab": TOKENS}}))


def expected(model, context, choice):
    """The sum over the choice's tokens, of a text whose beginning is gone where it is too long."""
    encode = lambda text: [BEGIN] + [TOKENS["\u2581" + word] for word in text.split()]
    before, whole = encode(context), encode(context + " " + choice)
    scored, whole = len(whole) - len(before), whole[-(SEQ + 1):]
    rows = model.log_probabilities(whole[:-1])
    return sum(rows[i][whole[i + 1]] for i in range(len(rows) - scored, len(rows)))


with scratch() as work:
    write_tiny_llama(work / "model", vocabulary=len(TOKENS))
    write_tokenizer(work / "model")
    plan, environment = work / "plan.bin", {"HOME": str(work)}
    run("ztc", "compile", work / "model", "--batch=2", f"--seq={SEQ}", "--target=host", "--precision=fp32", "-o", plan)
    (work / "text.jsonl").write_text("".join(json.dumps({"text": "the cat sat on the green mat" if i % 3 else "a dog ran on a mat"}) + "\n" for i in range(60)))
    run("ztc-run", plan, "--data", work / "text.jsonl", "--tokenizer", work / "model", "--steps=30", "--lr=1e-2", "--export", work / "trained", "--export-dtype=fp32", env=environment)

    words, chance = [text[1:] for text in TOKENS if text.startswith("\u2581")], random.Random(4)
    phrase = lambda least, most: " ".join(chance.choices(words, k=chance.randint(least, most)))
    questions = [{"context": "the cat", "choices": ["sat on the green mat", "dog", "\u00e9t\u00e9"], "answer": 0},
                 {"context": "a dog ran on the", "choices": ["mat", "green mat"], "answer": "green mat"},
                 {"context": "", "choices": ["the cat", "green"], "answer": 0}]
    while len(questions) < 24:
        choices = list(dict.fromkeys(phrase(1, 4) for _ in range(chance.randint(2, 4))))
        if len(choices) > 1:
            questions.append({"context": phrase(1, 30), "choices": choices, "answer": chance.randrange(len(choices))})
    questions[5]["context"] += " "  # the space goes to the choice: the same tokens
    file, log = work / "questions.jsonl", work / "log"
    file.write_text("\n".join(map(json.dumps, questions)) + "\n\n")

    def evaluate(*options, log=log, plan=plan):
        done = run("ztc-run", plan, "--device=cpu", "--threads=1", "--eval-only", "--eval-choices", file, "--tokenizer", work / "model", "--weights", work / "trained", "--overwrite",
                   f"--log-json={log}", *options, env=environment)
        return done, [json.loads(line) for line in log.read_text().splitlines()]

    done, lines = evaluate()
    found = [line["log_probabilities"] for line in lines if line.get("event") == "choice"]
    model = TinyLlama(work / "trained")
    wanted = [[expected(model, q["context"], choice) for choice in q["choices"]] for q in questions]
    worst = max((abs(a - b) / max(1, abs(b)) for mine, theirs in zip(found, wanted) for a, b in zip(mine, theirs)), default=math.inf)
    check("the log-probabilities are those of the model in Python", [len(x) for x in found] == [len(x) for x in wanted] and worst < 1e-5, worst)
    place = lambda q: q["answer"] if isinstance(q["answer"], int) else q["choices"].index(q["answer"])
    most = lambda values: max(range(len(values)), key=lambda i: values[i])
    right = [most(sums) == place(q) for q, sums in zip(questions, wanted)]
    normalized = [most([s / len(c.encode()) for s, c in zip(sums, q["choices"])]) == place(q) for q, sums in zip(questions, wanted)]
    result = lines[-1]
    check("acc and acc_norm", result["event"] == "choices" and result["questions"] == 24 and math.isclose(result["acc"], sum(right) / 24) and
          math.isclose(result["acc_norm"], sum(normalized) / 24), (result, sum(right), sum(normalized)))
    share = sum(right) / 24
    check("with the error of a mean", math.isclose(result["acc_stderr"], math.sqrt(share * (1 - share) / 23)), result)
    check("it is said", f"acc {result['acc']:.4f} +- {result['acc_stderr']:.4f}, acc_norm {result['acc_norm']:.4f}" in done.stdout, done.stdout)
    _, three = evaluate("--ranks=3", log=work / "three")
    check("three ranks find the same numbers", [x["log_probabilities"] for x in three if x.get("event") == "choice"] == found)
    # A batch holds as many choices as it has rows: their numbers are those of one at a time, to the bit.
    for precision in ("fp32", "bf16"):
        each = {}
        for batch in (1, 2, 7):
            run("ztc", "compile", work / "model", f"--batch={batch}", f"--seq={SEQ}", "--target=host", f"--precision={precision}", "-o", work / "other.bin")
            for ranks in (1, 2):
                _, lines = evaluate(f"--ranks={ranks}", plan=work / "other.bin", log=work / "other")
                each[batch, ranks] = [x["log_probabilities"] for x in lines if x.get("event") == "choice"], lines[-1]["acc"], lines[-1]["acc_norm"]
        check(f"{precision}: batches of 1, 2 and 7 find the same numbers, to the bit", all(x == each[1, 1] for x in each.values()) and len(each[1, 1][0]) == 24, each[7, 1][0][:2])
        check(f"{precision}: they are those above", precision == "bf16" or each[1, 1][0] == found)

    for text, said in (('{"context": "a"}', "needs `context`, a text, and `choices`"), ('{"context": "a", "choices": ["b"], "answer": 0}', "two texts or more"),
                       ('{"context": "a", "choices": ["the", "cat"], "answer": 2}', "needs `answer`, the place of a choice (0 to 1)"),
                       ('{"context": "a", "choices": ["the", ""], "answer": 0}', "not a text, or empty"), ("[1]", "is not a JSON object"), ("{", "is not a JSON object")):
        file.write_text('{"context": "a", "choices": ["the", "cat"], "answer": 1}\n' + text + "\n")
        done = run("ztc-run", plan, "--device=cpu", "--eval-only", "--eval-choices", file, "--tokenizer", work / "model", "--weights", work / "trained", expect=1, env=environment)
        check(said, f"--eval-choices: '{file}' line 2 " in done.stderr and said in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr)
    done = run("ztc-run", plan, "--device=cpu", "--eval-choices", file, "--tokenizer", work / "model", expect=2)
    check("it needs --eval-only", "--eval-choices has no effect without --eval-only" in done.stderr, done.stderr)
finish()
