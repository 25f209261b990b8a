"""Encodes and decodes strings with the tokenizers library and with ztc: compare.py COUNT FOLDER [FAMILY...]. The tokenizers of families.py are made in FOLDER.

Strings come in chunks, each with a seed of its own. What was found of a chunk goes into FOLDER/chunks.jsonl: the same command goes on from there after an end before
its time.
"""
import json
import os
import pathlib
import subprocess
import sys

from tokenizers import Tokenizer, __version__

import families
from strings import Strings

BIN = pathlib.Path(os.environ.get("ZTC_BIN", "build/bin"))
AT_ONCE = 50000
SHOWN = 3  # differences of a chunk that are kept


def ours(folder, lines, *options):
    done = subprocess.run([BIN / "tokenize", folder, "--threads=2", *options], input="\n".join(map(json.dumps, lines)) + "\n", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def differences(path, strings):
    """What differs between both, as texts."""
    tokenizer = Tokenizer.from_file(str(path))
    ids = [encoding.ids for encoding in tokenizer.encode_batch(strings)]
    texts = tokenizer.decode_batch(ids, skip_special_tokens=False)
    for what, given, found, expected in (("encode", strings, ours(path.parent, strings), ids), ("decode", ids, ours(path.parent, ids, "--decode"), texts)):
        for a, b, c in zip(given, found, expected, strict=True):
            if b != c:
                yield f"  {what} {a!r}:\n    ztc        {b}\n    tokenizers {c}"


def read_chunks(path):
    """(family, first string, strings) -> (how many differ, some of them), of all chunks that are done."""
    if not path.exists():
        return {}
    entries = [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]
    return {(entry["family"], entry["first"], entry["strings"]): (entry["differ"], entry["shown"]) for entry in entries if entry["tokenizers"] == __version__}


def main():
    count, folder = int(sys.argv[1]), pathlib.Path(sys.argv[2])
    paths = dict(families.write(folder, sys.argv[3:]))
    log = folder / "chunks.jsonl"
    done = read_chunks(log)
    wrong = {name: [0, []] for name in paths}
    for first in range(0, count, AT_ONCE):
        size = min(AT_ONCE, count - first)
        source, strings = Strings(first + 1), []
        for name, path in paths.items():
            if (name, first, size) not in done:
                strings = strings or [source.string() for _ in range(size)]
                found = sorted(differences(path, strings), key=len)
                done[name, first, size] = (len(found), found[:SHOWN])
                with log.open("a") as file:
                    print(json.dumps({"family": name, "first": first, "strings": size, "differ": len(found), "shown": found[:SHOWN], "tokenizers": __version__}), file=file)
            differ, shown = done[name, first, size]
            wrong[name][0] += differ
            wrong[name][1] += shown
        print(f"{first + size} of {count} strings: " + ", ".join(f"{name} {differ}" for name, (differ, _) in wrong.items()) + " differ", file=sys.stderr, flush=True)
    for name, (differ, shown) in wrong.items():
        print(f"{name}: {count} strings, {differ} differ from tokenizers {__version__}", *sorted(shown, key=len)[:SHOWN], sep="\n")
    return 1 if any(differ for differ, _ in wrong.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
