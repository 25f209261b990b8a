#!/usr/bin/env python3
"""Writes the references of dialects and passes as one plain HTML page, from the Markdown that make-reference.sh writes.

    compiler/reference_page.py OUTPUT.html [ROOT]      ROOT: where the Markdown is; default: the repository
"""
import html
import pathlib
import re
import subprocess
import sys

STYLE = """body{font:16px/1.5 sans-serif;max-width:60em;margin:2em auto;padding:0 1em}pre,code{font:14px/1.4 monospace}pre{background:#f4f4f4;padding:.7em;overflow-x:auto}
table{border-collapse:collapse}td,th{border:1px solid #ccc;padding:.2em .6em;text-align:left}nav ul{columns:2}h2{border-top:2px solid #888;margin-top:3em}"""


def main():
    output, root = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else pathlib.Path(__file__).resolve().parents[1])
    sources = sorted((root / "compiler/Dialect").glob("*/Ops.md")) + sorted((root / "passes").glob("*/Passes.md")) + [root / "compiler/Conversion/Passes.md"]
    taken, contents, body = set(), [], []

    def place(heading):
        """A heading gets a name for links; those of sources and of single ops and passes stand in the contents."""
        level, text = int(heading[1]) + 1, heading[2]
        name = re.sub(r"[^a-z0-9_.]+", "-", html.unescape(re.sub(r"<[^>]*>", "", text)).lower()).strip("-")
        name = name if name not in taken else next(f"{name}-{i}" for i in range(2, 1000) if f"{name}-{i}" not in taken)
        taken.add(name)
        if level == 2:
            contents.append((f'<a href="#{name}">{text}</a>', []))
        elif level == 4 and "<code>" in text:
            contents[-1][1].append(f'<a href="#{name}">{re.search("<code>.*?</code>", text)[0]}</a>')
        return f'<h{level} id="{name}">{text}</h{level}>'

    for source in sources:
        # --unsafe: mlir-tblgen writes tables as HTML; what it writes comes from this repository.
        page = subprocess.run(["cmark-gfm", "--unsafe", "-e", "table", source], capture_output=True, text=True, check=True).stdout
        page = re.sub(r"<!--.*?-->\n?", "", page)
        body.append(re.sub(r"<h([1-5])>(.*?)</h\1>", place, page))
    lines = "".join(f"<h3>{title}</h3><ul>{''.join(f'<li>{link}</li>' for link in links)}</ul>\n" for title, links in contents)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>ztc: dialects and passes</title><style>{STYLE}</style></head>\n<body>'
                      f"<h1>ztc: dialects and passes</h1>\n<nav>{lines}</nav>\n{''.join(body)}</body></html>\n")


main()
