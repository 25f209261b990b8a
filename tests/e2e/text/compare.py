"""Encodes and decodes strings with the tokenizers library and with ztc: compare.py COUNT FOLDER [FAMILY...]. The tokenizers of families.py are made in FOLDER."""
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


def main():
    count, folder = int(sys.argv[1]), sys.argv[2]
    paths = dict(families.write(folder, sys.argv[3:]))
    wrong, source = {name: [] for name in paths}, Strings(count)
    for begin in range(0, count, AT_ONCE):
        strings = [source.string() for _ in range(min(AT_ONCE, count - begin))]
        for name, path in paths.items():
            wrong[name] += differences(path, strings)
    for name, found in wrong.items():
        print(f"{name}: {count} strings, {len(found)} differ from tokenizers {__version__}", *sorted(found, key=len)[:3], sep="\n")
    return 1 if any(wrong.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
