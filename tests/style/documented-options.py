#!/usr/bin/env python3
"""The manual (README.md and docs/) names options that exist: each command line those of its own program, everything else those of any program or script. The links of all pages lead somewhere."""
import functools
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("ZTC_BIN", ROOT / "build/bin"))
MANUAL = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES = [ROOT / path for path in subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()]
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
SCRIPTS = [*ROOT.glob("samples/**/*.py"), *ROOT.glob("samples/**/*.sh"), *ROOT.glob("cmake/*.sh"), *ROOT.glob("tests/*.sh"), *ROOT.glob("tests/bench/*.sh")]
COMMANDS = ["compile", "memory", "plan", "check", "inspect", "diff", "report", "export"]


@functools.cache
def options_of(*command):
    return set(OPTION.findall(subprocess.run([BIN / command[0], *command[1:], "--help"], capture_output=True, text=True, check=True).stdout)) | {"--help", "--version"}


def anchors_of(page):
    """Of GitHub's rules what headings here need: lower case, spaces as hyphens, other signs left out."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def wrong_options(page):
    programs = {("ztc", name): options_of("ztc", name) for name in COMMANDS} | {("ztc-run",): options_of("ztc-run")}
    anywhere = set().union(*programs.values()) | {option for script in SCRIPTS for option in OPTION.findall(script.read_text())}
    for number, line in enumerate(page.read_text().splitlines(), 1):
        code = line.split("  #")[0].strip()
        words = code.removeprefix("$ ").split()
        own = programs.get(tuple(words[:2]), programs.get(tuple(words[:1]))) if line.startswith("    ") else None
        for option in OPTION.findall(code if own else line):
            if option not in (own or anywhere):
                yield f"{number}: {option} is not an option of {' '.join(words[:2]) if own else 'any program or script'}"


def wrong_links(page):
    for number, line in enumerate(page.read_text().splitlines(), 1):
        for target in re.findall(r"\]\(([^)\s]+)\)", line):
            path, _, anchor = target.partition("#")
            file = page if not path else (page.parent / path).resolve()
            if "://" not in target and (not file.exists() or (anchor and anchor not in anchors_of(file))):
                yield f"{number}: the link to {target} leads nowhere"


def main():
    findings = [f"{page.relative_to(ROOT)}:{what}" for check, pages in ((wrong_options, MANUAL), (wrong_links, PAGES)) for page in pages for what in check(page)]
    print(*findings, f"{len(PAGES)} pages, {len(findings)} findings", sep="\n")
    return len(findings) > 0


if __name__ == "__main__":
    sys.exit(main())
