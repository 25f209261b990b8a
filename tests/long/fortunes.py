"""Debian's fortunes as text to train on."""
import pathlib
import sys


def split_text(folder):
    """Training text and its last tenth, held out."""
    fortunes = pathlib.Path("/usr/share/games/fortunes")
    files = sorted(x for x in fortunes.iterdir() if x.is_file() and x.suffix != ".dat") if fortunes.is_dir() else []
    text = b"".join(x.read_bytes() for x in files)
    if len(text) < 1 << 20:
        print("left out: no megabyte of text in /usr/share/games/fortunes (Debian: fortunes)")
        sys.exit(77)
    at = len(text) * 9 // 10
    for name, part in (("train.txt", text[:at]), ("held-out.txt", text[at:at + 100_000])):
        (folder / name).write_bytes(part)
    return folder / "train.txt", folder / "held-out.txt"
