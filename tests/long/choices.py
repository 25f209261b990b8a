"""Questions with choices through ztc-run --eval-choices and through lm-evaluation-harness, which runs the exported folder with PyTorch."""
import json
import math
import os
import pathlib
import random
import sys

E2E = pathlib.Path(__file__).resolve().parents[1] / "e2e"
sys.path[:0] = [str(E2E / "text"), str(E2E)]  # `families` is that of text
os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
from support import check, finish, run, scratch, write_tiny_llama

import families

SEQ = 64
WORDS = "the cat dog sat ran on a mat green house Paris is was capital of France 42 7 days naive yes no maybe".split()
TASK = """task: ztc_choices
dataset_path: json
dataset_kwargs:
  data_files: {{validation: {file}}}
validation_split: validation
output_type: multiple_choice
doc_to_text: "{{{{context}}}}"
doc_to_choice: "{{{{choices}}}}"
doc_to_target: "{{{{answer}}}}"
metric_list:
  - metric: acc
  - metric: acc_norm
  - metric: acc_bytes
"""


def questions():
    chance = random.Random(5)
    phrase = lambda least, most: " ".join(chance.choices(WORDS, k=chance.randint(least, most)))
    while True:
        choices = list(dict.fromkeys(phrase(1, 6) for _ in range(4)))
        yield {"context": phrase(1, 70) + chance.choice(["", ":", "?", "."]), "choices": choices, "answer": chance.randrange(len(choices))}


def harness(folder, work, file):
    """Results and, question by question, log-probabilities."""
    from lm_eval import simple_evaluate
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks import TaskManager
    tasks = work / "tasks"
    tasks.mkdir()
    (tasks / "choices.yaml").write_text(TASK.format(file=file))
    model = HFLM(pretrained=str(folder), dtype="float32", device="cpu", batch_size=1, max_length=SEQ)
    found = simple_evaluate(model=model, tasks=["ztc_choices"], task_manager=TaskManager(include_path=str(tasks), include_defaults=False), bootstrap_iters=0, log_samples=True)
    samples = sorted(found["samples"]["ztc_choices"], key=lambda sample: sample["doc_id"])
    return found["results"]["ztc_choices"], [[float(one[0]) for one in sample["filtered_resps"]] for sample in samples]


def compare(name, count):
    with scratch() as work:
        path = dict(families.write(work / "tokenizers", [name]))[name]
        tokens = json.loads(path.read_text())
        vocabulary = 1 + max([token["id"] for token in tokens["added_tokens"]] + (list(tokens["model"]["vocab"].values()) if isinstance(tokens["model"]["vocab"], dict)
                                                                                 else [len(tokens["model"]["vocab"]) - 1]))
        write_tiny_llama(work / "model", vocabulary=vocabulary)
        (work / "model/tokenizer.json").write_text(path.read_text())
        special = {token["content"] for token in tokens["added_tokens"]}
        known = {key: next((text for text in texts if text in special), None) for key, texts in
                 (("bos_token", ("<|begin_of_text|>", "<s>")), ("eos_token", ("<|endoftext|>", "<|end_of_text|>", "</s>")))}
        (work / "model/tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast"} | {key: text for key, text in known.items() if text}))
        run("ztc", "compile", work / "model", "--batch=1", f"--seq={SEQ}", "--target=host", "--precision=fp32", "-o", work / "plan.bin")
        source = questions()
        asked = [next(source) for _ in range(count)]
        file, log = work / "questions.jsonl", work / "log"
        file.write_text("".join(json.dumps(question) + "\n" for question in asked))
        (work / "text.jsonl").write_text("".join(json.dumps({"text": question["context"]}) + "\n" for question in asked))
        run("ztc-run", work / "plan.bin", "--data", work / "text.jsonl", "--tokenizer", work / "model", "--steps=60", "--lr=1e-2", "--export", work / "trained",
            "--export-dtype=fp32", env={"HOME": str(work)})
        run("ztc-run", work / "plan.bin", "--eval-only", "--eval-choices", file, "--tokenizer", work / "trained", "--weights", work / "trained", f"--log-json={log}")
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        mine, result = [line["log_probabilities"] for line in lines if line.get("event") == "choice"], lines[-1]
        theirs, wanted = harness(work / "trained", work, file)
        worst = max((abs(a - b) / max(1, abs(b)) for x, y in zip(mine, wanted, strict=True) for a, b in zip(x, y, strict=True)), default=math.inf)
        check(f"{name}: {sum(map(len, mine))} log-probabilities of {count} questions", worst < 1e-5, f"{worst:.1e}")
        for key, other in (("acc", "acc"), ("acc_norm", "acc_norm"), ("acc_norm", "acc_bytes")):
            check(f"{name}: {key} is the harness' {other}", math.isclose(result[key], theirs[f"{other},none"]), (result[key], theirs[f"{other},none"]))


for family in sys.argv[2:] or ("gpt2", "llama3", "llama2"):
    compare(family, int(sys.argv[1]) if len(sys.argv) > 1 else 100)
finish()
