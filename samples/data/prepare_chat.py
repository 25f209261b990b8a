#!/usr/bin/env python3
"""Turns chats into token files with labels for ztc-run, with a model's own tokenizer and chat template.

    prepare_chat.py chats.jsonl --tokenizer MODEL_FOLDER --seq 2048 -o chats.safetensors

Rows may hold `messages`, ShareGPT's `conversations`, prompt and completion, alpaca's instruction and output, or `text`; a .txt file has one
text a line. Tokens are those of apply_chat_template. By default every answer of the assistant counts, with the token that ends it;
prompts and padding do not. The packages of requirements.txt are installed into a virtual environment of its own where this Python has none.
"""
import argparse
import fcntl
import hashlib
import importlib.util
import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))


def environment_python():
    """The Python of the virtual environment with requirements.txt; made once per machine. Ends the program where it cannot be made."""
    requirements = HERE / "requirements.txt"
    cache = pathlib.Path(os.environ.get("ZTC_CACHE") or pathlib.Path.home() / ".cache/ztc")
    version = hashlib.sha256(requirements.read_bytes() + sys.version.encode()).hexdigest()[:12]
    folder = cache / f"prepare-chat-{version}"
    python = folder / "bin/python"
    if (folder / "complete").exists():
        return python
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with open(cache / "prepare-chat-lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # two at once would write the same folder
            if not (folder / "complete").exists():
                print(f"setup: transformers and jinja2 into {folder} (once, a minute)", file=sys.stderr, flush=True)
                subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True, stdout=sys.stderr)
                subprocess.run([str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", "-r", str(requirements)],
                               check=True, stdout=sys.stderr)
                (folder / "complete").touch()
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"prepare_chat: the packages of {requirements} could not be installed ({error})")
    return python


def use_packages():
    """Goes on in the virtual environment where this Python lacks a package."""
    if all(importlib.util.find_spec(name) for name in ("transformers", "jinja2", "tqdm")):
        return
    python = environment_python()
    if pathlib.Path(sys.prefix).resolve() == python.parent.parent.resolve():
        sys.exit(f"prepare_chat: {python.parent.parent} is incomplete; remove it")
    os.execv(python, [str(python), __file__, *sys.argv[1:]])


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    parser.add_argument("inputs", nargs="*", metavar="FILE", help=".jsonl, .json with a list, or .txt with a text a line")
    parser.add_argument("--tokenizer", metavar="FOLDER", help="the model's folder: tokenizer, chat template, config.json")
    parser.add_argument("-o", "--output", metavar="FILE", help="the token file, .safetensors")
    parser.add_argument("--seq", type=int, metavar="S", help="tokens of a row, as ztc compile's --seq; default: the model's position limit, at most 2048")
    parser.add_argument("--train-on", choices=("assistant", "last", "all"), default="assistant",
                        help="what counts: every answer (the default), the last one of a conversation, or every token")
    parser.add_argument("--long", choices=("cut", "drop"), default="cut", help="rows of more than S tokens: lose their end (the default), or go")
    parser.add_argument("--chat-template", metavar="FILE", help="a template in place of the tokenizer's")
    parser.add_argument("--template-arguments", metavar="JSON", default="{}", help="further arguments of the template, e.g. '{\"enable_thinking\": false}'")
    parser.add_argument("--plain", action="store_true", help="prompt with completion and alpaca without the chat template")
    parser.add_argument("--vocabulary", type=int, metavar="N", help="token ids of the model; default: vocab_size of config.json")
    parser.add_argument("--skip-bad", action="store_true", help="leave out rows that cannot be read, and count them; without it the first one ends")
    parser.add_argument("--setup", action="store_true", help="only install the packages, and print the Python that has them")
    return parser


def main(given):
    parser = arguments()
    options = parser.parse_args(given)
    if options.setup:
        print(environment_python())
        return 0
    if not options.inputs or not options.tokenizer or not options.output:
        parser.error("FILE, --tokenizer and -o are needed")
    if not options.output.endswith(".safetensors"):
        parser.error(f"-o {options.output}: ztc-run knows such files by the ending .safetensors")
    if options.seq is not None and options.seq < 2:
        parser.error("--seq: at least 2, a row has its targets one token later")
    try:
        options.template_arguments = json.loads(options.template_arguments)
        assert isinstance(options.template_arguments, dict)
    except (ValueError, AssertionError):
        parser.error("--template-arguments: expected a JSON object")
    os.environ["TRANSFORMERS_NO_ADVISORY_WARNINGS"] = "1"  # that there is no PyTorch
    use_packages()
    from chat.formats import BadInput
    from chat.prepare import prepare
    try:
        prepare(options)
    except BadInput as error:
        print(f"prepare_chat: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"prepare_chat: {error.filename or ''}: {error.strerror or error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
