#!/usr/bin/env python3
"""Makes tokenizers/ beside this script: small tokenizer.json in the forms of families, texts, and the tokens and texts that the tokenizers library gives for them.
Needs `pip install tokenizers==0.23.3 sentencepiece protobuf`."""
import json
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e/text"))
import families  # noqa: E402
from strings import Strings  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402

families.SIZE = 420  # tokens: little more than bytes, so that the files stay small
source = Strings(7)
texts = [text for text in (source.string() for _ in range(400)) if len(text) < 80][:120]
# What comes of a first character and is not at the start: marks change places, letters join what is after them.
texts += ["\uffe3\uff9f\uff71", "\u00a8\u0316x", "\ufb03\u0301x", "\u0304\u309a a", "e\u0301t\u00e9"]
for name in ("llama3", "qwen2", "gpt_oss", "llama2", "mistral", "gemma", "unigram_bytes", "words"):
    tokenizer = families.FAMILIES[name]()
    folder = HERE / "tokenizers" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=True, separators=(",", ":")) + "\n")
    ids = [encoding.ids for encoding in tokenizer.encode_batch(texts)]
    decoded = tokenizer.decode_batch(ids, skip_special_tokens=False)
    lines = [json.dumps({"text": text, "tokens": tokens, "decoded": back}) for text, tokens, back in zip(texts, ids, decoded, strict=True)]
    (folder / "expected.jsonl").write_text("\n".join(lines) + "\n")
