"""Megabytes per second of ztc and of the tokenizers library in one run, on the repository's own text: speed.py FOLDER [FAMILY...], on one thread and on all."""
import json
import os
import pathlib
import subprocess
import sys

import families

ROOT = pathlib.Path(__file__).resolve().parents[3]
BIN = pathlib.Path(os.environ.get("ZTC_BIN", ROOT / "build/bin"))


def documents():
    """Sources and documents of this repository, 16 MB of them."""
    files = subprocess.run(["git", "-C", ROOT, "ls-files", "*.cpp", "*.h", "*.py", "*.md"], capture_output=True, text=True, check=True).stdout.split()
    texts = [(ROOT / file).read_text() for file in files]
    size = sum(len(text.encode()) for text in texts)
    return texts * (1 + 16_000_000 // size)


def ours(folder, lines, threads):
    done = subprocess.run([BIN / "tokenize", folder, "--seconds", f"--threads={threads}"], input=lines, capture_output=True, text=True, check=True)
    return float(done.stderr)


def theirs(path, texts, parallel):
    """In a process of its own: the library reads its settings once."""
    code = ("import sys, json, time; from tokenizers import Tokenizer; t = Tokenizer.from_file(sys.argv[1]); texts = [json.loads(line) for line in sys.stdin]\n"
            "t.encode('warm'); began = time.time(); t.encode_batch_fast(texts); print(time.time() - began)")
    environment = {**os.environ, "TOKENIZERS_PARALLELISM": "true" if parallel else "false"}
    return float(subprocess.run([sys.executable, "-c", code, path], input=texts, capture_output=True, text=True, check=True, env=environment).stdout)


texts = documents()
size = sum(len(text.encode()) for text in texts) / 1e6
lines = "\n".join(map(json.dumps, texts)) + "\n"
threads = len(os.sched_getaffinity(0))
print(f"{size:.1f} MB in {len(texts)} documents, MB/s: ztc, tokenizers on 1 thread; on {threads}")
for name, path in families.write(sys.argv[1], sys.argv[2:]):
    figures = [size / seconds for seconds in (ours(path.parent, lines, 1), theirs(path, lines, False), ours(path.parent, lines, threads), theirs(path, lines, True))]
    print(f"{name}: " + ", ".join(f"{figure:.1f}" for figure in figures), flush=True)
