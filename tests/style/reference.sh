#!/usr/bin/env bash
# The reference that is generated from the definitions of dialects and passes is current.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$root/compiler/make-reference.sh" "$work"
cd "$work"
status=0
while read -r file; do
  diff -u "$root/$file" "$file" | head -20 || true
  cmp -s "$root/$file" "$file" || { echo "$file is not current: run compiler/make-reference.sh"; status=1; }
done < <(find . -name '*.md' | cut -c3-)

# The page of all of them, for who has no repository: each op and pass is in it, and links lead somewhere.
if command -v cmark-gfm >/dev/null; then
  "$root/compiler/reference_page.py" "$work/reference.html" "$root"
  python3 - "$work/reference.html" "$root" <<'END' || status=1
import html.parser, pathlib, re, sys


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.names, self.links, self.open = set(), set(), []

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.names |= {attributes["id"]} if "id" in attributes else set()
        self.links |= {attributes["href"][1:]} if attributes.get("href", "").startswith("#") else set()
        if tag not in ("meta", "br", "hr"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, f"</{tag}> closes nothing"


text, root = pathlib.Path(sys.argv[1]).read_text(), pathlib.Path(sys.argv[2])
page = Page()
page.feed(text)
assert not page.open and page.links <= page.names, (page.open, page.links - page.names)
for source in [*root.glob("compiler/*/Passes.md"), *root.glob("compiler/Dialect/*/Ops.md"), *root.glob("passes/*/Passes.md")]:
    for name in re.findall(r"^### `([^`]+)`", source.read_text(), re.M):
        assert f"<code>{name}</code>" in text, f"{name} of {source} is not in the page"
END
fi
exit $status
