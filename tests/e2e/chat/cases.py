"""prepare_chat.py against transformers' apply_chat_template. Runs in the virtual environment that prepare_chat.py makes."""
import contextlib
import io
import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE.parent), str(HERE.parents[2] / "samples/data")]
os.environ["TRANSFORMERS_NO_ADVISORY_WARNINGS"] = "1"
import prepare_chat  # noqa: E402
import tokenizers_and_templates as models  # noqa: E402
import support  # noqa: E402
from support import ROOT, finish, read_log, read_safetensors, run, scratch  # noqa: E402
from transformers import AutoTokenizer  # noqa: E402

CHATML_TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>", "<|pad|>"]
TWO_TURNS = [{"role": "user", "content": "Hello, how are you?"}, {"role": "assistant", "content": "I am fine."},
             {"role": "user", "content": "What is two plus two?"}, {"role": "assistant", "content": "It is four \u2014 \u00e9\u00e8\U0001f642!"}]
ONE_TURN = TWO_TURNS[:2]


def check(name, good, detail=""):
    """Details are long here: only of what fails."""
    support.check(name, good, "" if good else detail)


def run_script(*arguments):
    """prepare_chat.py in this process: its packages take seconds to load."""
    out, err, status = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = prepare_chat.main([str(x) for x in arguments])
        except SystemExit as end:
            status = end.code
    return subprocess.CompletedProcess(arguments, status, out.getvalue(), err.getvalue())


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def prepare(work, folder, rows, *arguments, expect=0, suffix=".jsonl", seq=128):
    """(process, [(tokens, labels)])."""
    data, out = work / f"data{suffix}", work / "out.safetensors"
    if isinstance(rows, str):
        data.write_text(rows)
    else:
        write_lines(data, rows)
    out.unlink(missing_ok=True)
    done = run_script(data, "--tokenizer", folder, f"--seq={seq}", "-o", out, *arguments)
    if done.returncode != expect:
        check(f"prepare_chat exits with {expect}", False, done.stdout[-1500:] + done.stderr[-1500:])
    if not out.exists():
        return done, []
    tensors = read_safetensors(out)
    shape, ids = tensors["input_ids"]
    labels = tensors["labels"][1]
    return done, [(list(ids[i * seq:(i + 1) * seq]), list(labels[i * seq:(i + 1) * seq])) for i in range(shape[0])]


def counted_texts(tokenizer, tokens, labels):
    """The runs of positions that count, as texts; labels must be the tokens at these positions."""
    runs, current = [], []
    for token, label in [*zip(tokens, labels), (0, -100)]:
        if label == -100:
            if current:
                runs.append(tokenizer.decode(current, skip_special_tokens=False, clean_up_tokenization_spaces=False))
            current = []
        else:
            assert label == token, (label, token)
            current.append(token)
    return runs


def same_tokens(name, tokenizer, messages, row, **more):
    """The row holds apply_chat_template's tokens, then padding that never counts."""
    expected = tokenizer.apply_chat_template(messages, tokenize=True, return_dict=True, **more)["input_ids"]
    tokens, labels = row
    rest = tokens[len(expected):]
    check(f"{name}: tokens equal apply_chat_template's", tokens[:len(expected)] == expected, (tokens[:40], expected[:40]))
    check(f"{name}: then padding that does not count", len(set(rest)) <= 1 and set(labels[len(expected):]) <= {-100}, rest[:4])


def styles(work):
    """(name, folder, conversation, counted texts of its rows). A conversation has one row unless there are several lists."""
    chatml = models.byte_level(CHATML_TOKENS)
    names = {"eos_token": "<|im_end|>", "pad_token": "<|pad|>"}
    answers = [m["content"] for m in TWO_TURNS if m["role"] == "assistant"]
    ended = lambda end, space="": [[space + a + end for a in answers]]
    yield "ChatML", models.save(work / "chatml", chatml, names, models.CHATML), TWO_TURNS, ended("<|im_end|>")
    yield "ChatML without a generation prompt", models.save(work / "bare", chatml, names, models.CHATML_BARE), TWO_TURNS, ended("<|im_end|>")
    yield "tools", models.save(work / "tools", chatml, names, models.TOOLS), TWO_TURNS, ended("<|im_end|>")
    yield "thinking removed", models.save(work / "thinking", chatml, names, models.THINKING), TWO_TURNS, [
        ["<think>\n\n</think>\n\n" + a + "<|im_end|>"] for a in answers]
    llama = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|finetune_right_pad_id|>"]
    tokenizer = models.with_begin(models.byte_level(llama), llama[0])
    yield "Llama 3", models.save(work / "llama", tokenizer, {"bos_token": llama[0], "eos_token": llama[4]}, models.LLAMA3), TWO_TURNS, ended("<|eot_id|>")
    gemma = ["<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>"]
    yield "Gemma", models.save(work / "gemma", models.with_begin(models.pieces(gemma), "<bos>"), {"bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>"},
                               models.GEMMA), TWO_TURNS, ended("<end_of_turn>")
    mistral = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]"]
    yield "Mistral", models.save(work / "mistral", models.with_begin(models.pieces(mistral), "<s>"), {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"},
                                 models.MISTRAL), TWO_TURNS, ended("</s>", " ")
    phi = ["<|endoftext|>", "<|user|>", "<|assistant|>", "<|system|>", "<|end|>"]
    yield "Phi", models.save(work / "phi", models.byte_level(phi), {"eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>"}, models.PHI), TWO_TURNS, ended("<|end|>")
    yield "alpaca-like", models.save(work / "alpaca", models.byte_level(["<|endoftext|>"]), {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>"},
                                     models.ALPACA), TWO_TURNS, ended("<|endoftext|>")


def test_styles(work):
    for name, folder, messages, expected in styles(work):
        tokenizer = AutoTokenizer.from_pretrained(folder)
        done, rows = prepare(work, folder, [{"messages": messages}])
        check(f"{name}: {len(expected)} rows", len(rows) == len(expected), done.stdout)
        ends = [4] if len(expected) == 1 else [2, 4]
        for row, end, texts in zip(rows, ends, expected):
            same_tokens(name, tokenizer, messages[:end], row)
            found = counted_texts(tokenizer, *row)
            check(f"{name}: what counts", found == texts, (found, texts))
        check(f"{name}: the split is said", ("a row of its own" in done.stdout) == (len(expected) > 1), done.stdout)
        _, rows = prepare(work, folder, [{"messages": messages}], "--train-on=last")
        found = counted_texts(tokenizer, *rows[0])
        check(f"{name}: --train-on=last", len(rows) == 1 and found == [expected[-1][-1]], found)
        same_tokens(name, tokenizer, messages, rows[0])
        _, rows = prepare(work, folder, [{"messages": messages}], "--train-on=all")
        whole = tokenizer.apply_chat_template(messages, return_dict=True)["input_ids"]
        check(f"{name}: --train-on=all", [label for label in rows[0][1] if label != -100] == whole, rows[0][1])
        begins = sum(token == tokenizer.bos_token_id for token in rows[0][0][:len(whole)])
        if name in ("Llama 3", "Gemma", "Mistral"):
            check(f"{name}: one begin token", begins == 1, begins)


def test_padding(work):
    """A padding token is not an end token where another reserved one exists; the end counts where it is the padding token all the same."""
    for name, folder, reason in [("llama", work / "llama", "<|finetune_right_pad_id|>"), ("mistral", work / "mistral", "<unk>")]:
        done, rows = prepare(work, folder, [{"messages": ONE_TURN}])
        tokenizer = AutoTokenizer.from_pretrained(folder)
        check(f"{name}: a missing padding token is chosen and said", rows[0][0][-1] == tokenizer.convert_tokens_to_ids(reason)
              and reason in done.stdout and "the tokenizer names none" in done.stdout, done.stdout)
    done, rows = prepare(work, work / "phi", [{"messages": ONE_TURN}])
    check("phi: not the end token that the tokenizer names", rows[0][0][-1] != 0 and "ends a text" in done.stdout, done.stdout)
    done, rows = prepare(work, work / "alpaca", [{"messages": ONE_TURN}])
    counted = [token for token, label in zip(*rows[0]) if label != -100]
    check("alpaca: the only reserved token pads, and counts where it ends an answer", rows[0][0][-1] == 0 and counted[-1] == 0
          and counted.count(0) == 1 and "labels go by position" in done.stdout, done.stdout)
    (work / "chatml" / "generation_config.json").write_text(json.dumps({"eos_token_id": [2, 5]}))
    done, rows = prepare(work, work / "chatml", [{"messages": ONE_TURN}])
    check("generation_config.json's end tokens are ends", rows[0][0][-1] not in (2, 5), rows[0][0][-1])
    (work / "chatml" / "generation_config.json").unlink()


def test_formats(work):
    folder = work / "chatml"
    tokenizer = AutoTokenizer.from_pretrained(folder)
    system = {"role": "system", "content": "You are a helpful assistant."}
    asked = lambda text: [{"role": "user", "content": text}, {"role": "assistant", "content": "Four."}]
    cases = {
        "prompt and completion": ({"prompt": "Two?", "completion": "Four."}, asked("Two?")),
        "prompt and completion as messages": ({"prompt": asked("Two?")[:1], "completion": asked("")[1:]}, asked("Two?")),
        "alpaca": ({"instruction": "Add.", "input": "2 2", "output": "Four."}, asked("Add.\n\n2 2")),
        "alpaca without input": ({"instruction": "Two?", "input": "", "output": "Four."}, asked("Two?")),
        "ShareGPT": ({"system": system["content"], "conversations": [{"from": "human", "value": "Two?"}, {"from": "gpt", "value": "Four."}]},
                     [system, *asked("Two?")]),
    }
    for name, (row, messages) in cases.items():
        _, rows = prepare(work, folder, [row])
        same_tokens(name, tokenizer, messages, rows[0])
        check(f"{name}: what counts", counted_texts(tokenizer, *rows[0]) == ["Four.<|im_end|>"], counted_texts(tokenizer, *rows[0]))
    _, rows = prepare(work, folder, json.dumps([cases["alpaca"][0]] * 2), suffix=".json")
    check("a JSON list", len(rows) == 2, len(rows))
    _, rows = prepare(work, folder, "The sea is wide.\n\nHello, how are you?\n", suffix=".txt")
    texts = [counted_texts(tokenizer, *row) for row in rows]
    check("one text a line", texts == [["The sea is wide.<|im_end|>"], ["Hello, how are you?<|im_end|>"]], texts)
    _, rows = prepare(work, work / "llama", [{"text": "The sea."}, {"text": "<|begin_of_text|>The sea."}])
    check("a text gets one begin token", len(rows) == 2 and rows[0] == rows[1] and rows[0][0].count(0) == 1, [r[0][:8] for r in rows])
    tools = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {}}}}]
    call = {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {"name": "add", "arguments": {"a": 2}}}]}
    chat = [ONE_TURN[0], call, {"role": "tool", "content": "4"}, {"role": "assistant", "content": "Four."}]
    _, rows = prepare(work, work / "tools", [{"messages": chat, "tools": tools}], seq=512)
    same_tokens("tools", tokenizer=AutoTokenizer.from_pretrained(work / "tools"), messages=chat, row=rows[0], tools=tools)
    texts = counted_texts(tokenizer, *rows[0])
    check("a call of a tool counts", texts == ['<tool_call>{"name": "add", "arguments": {"a": 2}}</tool_call><|im_end|>', "Four.<|im_end|>"], texts)
    chat = [{**m, **({"weight": 0} if i == 1 else {})} for i, m in enumerate(TWO_TURNS)]
    _, rows = prepare(work, folder, [{"messages": chat}])
    check("an answer of weight 0 does not count", len(counted_texts(tokenizer, *rows[0])) == 1, counted_texts(tokenizer, *rows[0]))
    check("weights of 0 and 1 need no tensor", "loss_weights" not in read_safetensors(work / "out.safetensors"))
    chat = [{**m, **({"weight": 0.5} if i == 1 else {})} for i, m in enumerate(TWO_TURNS)]
    done, rows = prepare(work, folder, [{"messages": chat}])
    shape, weights = read_safetensors(work / "out.safetensors")["loss_weights"]
    runs = [w for i, w in enumerate(weights) if rows[0][1][i] != -100 and (i == 0 or rows[0][1][i - 1] == -100)]
    check("an answer of another weight has it at its labels", shape == [1, 1, 128] and runs == [0.5, 1] and set(weights) == {0.5, 1} and "--loss-weights" in done.stdout, (runs, done.stdout))
    done, _ = prepare(work, folder, [{"messages": [{**m, "weight": "much"} for m in TWO_TURNS]}], expect=1)
    check("a weight that is no number is named", "the weight of message 1 is 'much'" in done.stderr, done.stderr)
    thoughts = [ONE_TURN[0], {"role": "assistant", "content": "<think>\nWell.\n</think>\n\nFine."}, *TWO_TURNS[2:]]
    _, rows = prepare(work, work / "thinking", [{"messages": thoughts}])
    texts = counted_texts(tokenizer, *rows[0])
    check("thinking is trained where it stands last", texts == ["<think>\nWell.\n</think>\n\nFine.<|im_end|>"], texts)
    strict = models.save(work / "strict", models.byte_level(CHATML_TOKENS), {"eos_token": "<|im_end|>", "pad_token": "<|pad|>"},
                         models.CHATML.replace("message.content", "message.content.split('</think>')[-1]"))
    done, rows = prepare(work, strict, [{"messages": thoughts[:2]}])
    check("a template that drops thinking everywhere is named", "not as in the data" in done.stdout and "not as in the data" not in prepare(
        work, work / "thinking", [{"messages": thoughts}])[0].stdout, done.stdout)
    _, rows = prepare(work, work / "thinking", [{"messages": ONE_TURN, "chat_template_kwargs": {"enable_thinking": False}}])
    check("arguments of the template", counted_texts(tokenizer, *rows[0]) == ["I am fine.<|im_end|>"], counted_texts(tokenizer, *rows[0]))
    bare = models.save(work / "plain", models.byte_level(["<|endoftext|>"]), {"eos_token": "<|endoftext|>"}, None)
    _, rows = prepare(work, bare, [{"prompt": "Two?", "completion": " Four."}])
    check("no template: prompt and completion as they are", counted_texts(AutoTokenizer.from_pretrained(bare), *rows[0]) == [" Four.<|endoftext|>"])
    done, _ = prepare(work, bare, [{"messages": ONE_TURN}], expect=1)
    check("no template: messages need one", "no chat template" in done.stderr and "--chat-template" in done.stderr, done.stderr)


def test_counts_and_messages(work):
    folder = work / "chatml"
    tokenizer = AutoTokenizer.from_pretrained(folder)
    long = [{"role": "user", "content": "Hello, " * 40}, {"role": "assistant", "content": "Yes."}]
    late = [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Yes, " * 60}]
    rows = [{"messages": ONE_TURN}, {"messages": long}, {"messages": late}, {"messages": ONE_TURN[:1]}]
    done, kept = prepare(work, folder, rows, seq=64)
    check("cut and dropped rows are counted", len(kept) == 2 and "1 cut at 64 tokens" in done.stdout and "2 dropped without a counted target" in done.stdout, done.stdout)
    check("a row is printed with the counted part marked", "\u27e6I am fine.<|im_end|>\u27e7" in done.stdout, done.stdout)
    done, kept = prepare(work, folder, rows, "--long=drop", seq=64)
    check("--long=drop", len(kept) == 1 and "2 dropped as longer" in done.stdout, done.stdout)
    done, _ = prepare(work, folder, rows[3:], expect=1)
    check("nothing that counts is an error", "no row is left" in done.stderr and not (work / "out.safetensors").exists(), done.stderr)
    (folder / "config.json").write_text(json.dumps({"vocab_size": 5, "max_position_embeddings": 128}))
    done, _ = prepare(work, folder, rows, expect=1)
    check("an id beyond the model's vocabulary is an error with its text", "beyond the model's vocabulary of 5" in done.stderr and "line 1" in done.stderr
          and "('u')" in done.stderr, done.stderr)
    done, _ = prepare(work, folder, rows, expect=1, seq=256)
    check("above the position limit", "position limit 128" in done.stderr, done.stderr)
    (folder / "config.json").unlink()
    for name, text, words in [("not JSON", "{oops\n", ["line 1", "is not JSON"]), ("no known keys", '{"a": 1}\n', ["line 1", "'a'", "known are messages"]),
                              ("preferences", '{"chosen": "a", "rejected": "b"}\n', ["pairs of preferences"]),
                              ("an unknown speaker", '{"conversations": [{"from": "cat", "value": "x"}]}\n', ["'cat'", "human"])]:
        done, _ = prepare(work, folder, text, expect=1)
        check(f"{name}: one message", all(w in done.stderr for w in words) and "Traceback" not in done.stderr, done.stderr)
    done, _ = prepare(work, work / "gemma", [{"messages": [{"role": "system", "content": "Be good."}, *ONE_TURN]}], expect=1)
    check("what the template refuses is said in its words", "System role not supported" in done.stderr and "line 1" in done.stderr, done.stderr)
    done, kept = prepare(work, folder, [{"a": 1}, rows[0]], "--skip-bad")
    check("--skip-bad", len(kept) == 1 and "1 bad" in done.stdout, done.stdout)
    check("decoded", counted_texts(tokenizer, *kept[0]) == ["I am fine.<|im_end|>"])


def test_training(work):
    """ztc-run counts the targets that the script says."""
    folder = models.save(work / "letters", models.letters(), {"eos_token": "<|im_end|>", "pad_token": "<pad>", "unk_token": "<unk>"}, models.CHATML, vocabulary=256)
    done, rows = prepare(work, folder, [{"messages": TWO_TURNS}] * 4, seq=64)
    plan = work / "plan.bin"
    run("ztc", "compile", ROOT / "samples/quickstart/model.onnx", "--batch=4", "--seq=64", "--target=host", "-o", plan)
    run("ztc-run", plan, "--device=cpu", "--data", work / "out.safetensors", "--steps=1", "--no-save", f"--log-json={work / 'log'}", "--overwrite", "--init=normal:0.02")
    _, steps = read_log(work / "log")
    targets = sum(label != -100 for row in rows for label in row[1][1:])
    check("ztc-run trains on it and counts the same targets", steps[0]["targets"] == targets and f"targets    {targets} of" in done.stdout, (steps, targets))


with scratch() as work:
    test_styles(work)
    test_padding(work)
    test_formats(work)
    test_counts_and_messages(work)
    test_training(work)
finish()
