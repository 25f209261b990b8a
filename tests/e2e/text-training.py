#!/usr/bin/env python3
"""Training on text: the same losses as on a token file that holds the same tokens; prompts do not count; what is wrong with texts is said."""
import json
import struct

from support import BIN, Running, check, finish, read_log, run, scratch, wait_until, write_tiny_llama

LETTERS = {}  # GPT-2's letters for bytes
for byte in range(256):
    shown = 0x21 <= byte <= 0x7E or 0xA1 <= byte <= 0xAC or byte >= 0xAE
    LETTERS[byte] = chr(byte if shown else 0x100 + sum(not (0x21 <= b <= 0x7E or 0xA1 <= b <= 0xAC or b >= 0xAE) for b in range(byte)))
END = 256
TEXT = "Friends are those who know you, caf\u00e9 or not.\n" * 40


def write_tokenizer(folder, letters=256):
    """Bytes are tokens; END ends documents."""
    folder.mkdir()
    vocabulary = {LETTERS[byte]: byte for byte in range(letters)} | {"<end>": END if letters == 256 else 300}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": True}
    (folder / "tokenizer.json").write_text(json.dumps({
        "added_tokens": [{"id": END, "content": "<end>", "special": True, "normalized": False}], "pre_tokenizer": level, "decoder": level,
        "model": {"type": "BPE", "vocab": vocabulary, "merges": []}}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<end>"}))


with scratch() as work:
    write_tiny_llama(work / "model", vocabulary=260)
    done = run("ztc", "compile", work / "model", "--batch=2", "--seq=16", "--target=host", "--precision=fp32", "-o", work / "plan.bin")
    check("the model compiles", done.returncode == 0, done.stderr)
    write_tokenizer(work / "tokenizer")
    write_tokenizer(work / "large", letters=255)
    environment = {"ZTC_CACHE": str(work / "cache"), "XDG_CACHE_HOME": str(work / "cache"), "HOME": str(work)}

    def train(data, *options):
        log = work / (data.name + ".log")
        done = run("ztc-run", work / "plan.bin", "--data", data, "--steps=4", "--no-save", "--overwrite", f"--log-json={log}", *options, env=environment, expect=None)
        return done, [step["loss"] for step in read_log(log)[1]] if done.returncode == 0 else done.stderr

    tokens = [*TEXT.encode(), END]
    (work / "tokens.bin").write_bytes(struct.pack(f"<{len(tokens)}H", *tokens))
    (work / "text.txt").write_text(TEXT)
    _, expected = train(work / "tokens.bin")
    _, found = train(work / "text.txt", "--tokenizer", work / "tokenizer")
    check("text gives the losses of its tokens", isinstance(found, list) and len(found) == 4 and found == expected, f"{found}, {expected}")
    kept = list((work / "cache").rglob("*.tokens"))
    _, again = train(work / "text.txt", "--tokenizer", work / "tokenizer")
    check("tokens are kept for the next run", len(kept) == 1 and again == expected, str(kept))
    whole = kept[0].read_bytes()
    for what, damaged in (("cut", whole[:-5]), ("empty", b""), ("of zeros", bytes(len(whole)))):
        kept[0].write_bytes(damaged)
        _, again = train(work / "text.txt", "--tokenizer", work / "tokenizer")
        check(f"a file of tokens that is {what} is made again", again == expected and kept[0].read_bytes() == whole, str(again))

    rows = [TEXT[:47], TEXT[:94]] * 10
    (work / "rows.jsonl").write_text("\n".join(json.dumps({"text": row}) for row in rows) + "\n\n")
    documents = [token for row in rows for token in (*row.encode(), END)]
    (work / "documents.bin").write_bytes(struct.pack(f"<{len(documents)}H", *documents))
    _, expected = train(work / "documents.bin")
    _, found = train(work / "rows.jsonl", "--tokenizer", work / "tokenizer")
    check("JSON lines give the losses of their tokens", found == expected, f"{found}, {expected}")

    (work / "answers.jsonl").write_text("".join(json.dumps({"prompt": "x" * 400, "completion": ""}) + "\n" for _ in range(5)))
    _, quiet = train(work / "answers.jsonl", "--tokenizer", work / "tokenizer")
    check("prompts do not count: of empty answers only the ends do", quiet == [None] * 4, str(quiet))

    for name, content, said in (("chat.jsonl", json.dumps({"messages": []}), "line 1 holds a chat (`messages`)"),
                                ("keys.jsonl", '{"text": "a"}\n{"body": "b"}', "line 2 has the keys body; known are `text`"),
                                ("broken.jsonl", '{"text": "a"', "line 1 is not JSON"), ("number.jsonl", '{"text": 5}', "line 1 has a `text` that is not a text")):
        (work / name).write_text(content + "\n")
        done, _ = train(work / name, "--tokenizer", work / "tokenizer")
        check(f"{name}: {said}", done.returncode == 1 and said in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr)
    (work / "latin.txt").write_bytes(b"caf\xe9 " * 100)
    done, _ = train(work / "latin.txt", "--tokenizer", work / "tokenizer")
    check("what is not UTF-8 is said with its place", done.returncode == 1 and "is not UTF-8 at byte 3" in done.stderr, done.stderr)
    done, _ = train(work / "text.txt", "--tokenizer", work / "large")
    check("a token beyond the vocabulary is said with its text", done.returncode == 1 and "becomes the token 300 ('<end>')" in done.stderr, done.stderr)
    done, _ = train(work / "text.txt", "--tokenizer", work / "model")
    check("a folder without a tokenizer is said", done.returncode == 1 and "has no tokenizer.json" in done.stderr, done.stderr)

    # Text that takes a while: whoever stops meanwhile is obeyed, whoever is killed leaves nothing for ever.
    large = work / "large.txt"
    large.write_text(TEXT * 30000)
    folder = work / "cache/ztc/tokens"
    command = [BIN / "ztc-run", work / "plan.bin", "--data", large, "--steps=1", "--no-save", "--tokenizer", work / "tokenizer"]
    begun = lambda: [p for p in folder.glob("*.tokens.tmp-*") if p.stat().st_size]
    with Running(command, env=environment) as child:
        check("tokens are on their way", wait_until(begun, 60))
        child.process.kill()
        child.finish(10)
    check("a run that is killed leaves what it had", len(begun()) == 1)
    with Running(command, env=environment) as child:
        wait_until(lambda: begun() and f"tmp-{child.pid}" in begun()[-1].name, 60)
        left = [p.name for p in begun()]
        child.process.terminate()
        status = child.finish(60)
    check("the next one removes it", left == [x for x in left if x.endswith(f"tmp-{child.pid}")], left)
    check("a signal ends the making of tokens", status == 1 and "while the tokens of" in child.err and len(child.err.splitlines()) == 1, (status, child.err))
    check("nothing of them is left", not list(folder.glob("*.tmp-*")), list(folder.glob("*.tmp-*")))
finish()
