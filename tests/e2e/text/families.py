"""Small tokenizers in the forms of known families, trained with the tokenizers library: families.py FOLDER makes FOLDER/NAME/tokenizer.json.

Each has the normalizers, pre-tokenizers, post-processors and decoders of its family's files, and a small vocabulary.
"""
import json
import pathlib
import random
import sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from strings import SCRIPTS, Strings

LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
O200K = "|".join([
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])
DEEPSEEK = r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
KIMI = "|".join([
    r"[\p{Han}]+", r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])

SIZE = 2000  # of vocabularies, about
BYTE_TOKENS = [f"<0x{byte:02X}>" for byte in range(256)]


def corpus(scripts=tuple(SCRIPTS)):
    """Texts with words that repeat, in many scripts."""
    source = Strings(1)
    lexicon = {name: [source.word(name) for _ in range(120)] for name in scripts}
    chance = random.Random(2)
    for _ in range(6000):
        words = lexicon[chance.choice(scripts)] if chance.random() < 0.5 else lexicon["latin"]
        yield " ".join(words[int(chance.paretovariate(1)) % len(words)] for _ in range(chance.randint(3, 20))) + chance.choice([".", "!\n", " 12345", "\n\n", "'s it"])


def byte_level(pre_tokenizer, normalizer=None, special=("<|endoftext|>",), ignore_merges=False):
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.train_from_iterator(corpus(), trainers.BpeTrainer(vocab_size=SIZE, special_tokens=list(special), show_progress=False,
                                                                initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return tokenizer


def split(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Split(Regex(pattern), behavior, invert)


def split_byte_level(pattern, **options):
    return byte_level(pre_tokenizers.Sequence([split(pattern), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]), **options)


def around(tokenizer, begin=None, end=None):
    known = [(text, tokenizer.token_to_id(text)) for text in (begin, end) if text]
    single = [*([begin] if begin else []), "$A", *([end] if end else [])]
    tokenizer.post_processor = processors.TemplateProcessing(single=single, pair=single + ["$B"], special_tokens=known)
    return tokenizer


def gpt2():
    return byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False))


def llama3():
    tokenizer = split_byte_level(LLAMA3, special=("<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"), ignore_merges=True)
    return around(tokenizer, begin="<|begin_of_text|>")


def qwen2():
    tokenizer = split_byte_level(QWEN2, normalizer=normalizers.NFC(), special=("<|endoftext|>", "<|im_start|>", "<|im_end|>"))
    tokenizer.add_tokens([AddedToken("<tool_call>", normalized=False), AddedToken("</think>", normalized=False)])
    return tokenizer


def gpt_oss():
    return split_byte_level(O200K, special=("<|endoftext|>", "<|start|>", "<|end|>"))


def kimi():
    return split_byte_level(KIMI)


def deepseek():
    cut = [split(r"\p{N}{1,3}"), split("[一-龥぀-ゟ゠-ヿ]+"), split(DEEPSEEK), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    return around(byte_level(pre_tokenizers.Sequence(cut), special=("<begin>", "<end>")), begin="<begin>")


def falcon():
    cut = [pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.ByteLevel(add_prefix_space=False), pre_tokenizers.Digits(), split("[0-9][0-9][0-9]")]
    return byte_level(pre_tokenizers.Sequence(cut), special=(">>TITLE<<", "<|endoftext|>"))


def neox():
    """Runs of spaces are tokens; the beginning of a text counts as after a space."""
    tokenizer = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=True), normalizer=normalizers.NFC())
    tokenizer.add_tokens([AddedToken(" " * n, normalized=True) for n in range(2, 25)])
    return tokenizer


def pieces(tokenizer, prefix, byte_fallback):
    """SentencePiece's BPE: tokens of bytes before those that are learned."""
    learner = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    learner.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]) if prefix else normalizers.Replace(" ", "▁")
    learner.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
    special = ["<unk>", "<s>", "</s>", *(BYTE_TOKENS if byte_fallback else [])]
    learner.train_from_iterator(corpus(), trainers.BpeTrainer(vocab_size=SIZE, special_tokens=special, limit_alphabet=min(300, SIZE // 6), show_progress=False))
    learned = json.loads(learner.to_str())["model"]
    merges = [tuple(merge) for merge in learned["merges"]]
    tokenizer.model = models.BPE(vocab=learned["vocab"], merges=merges, unk_token="<unk>", fuse_unk=True, byte_fallback=byte_fallback)
    tokenizer.add_special_tokens([AddedToken(text, normalized=False) for text in ("<unk>", "<s>", "</s>")])
    return tokenizer


LLAMA2_DECODER = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]


def llama2():
    tokenizer = pieces(Tokenizer(models.BPE()), True, True)
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(LLAMA2_DECODER)
    return around(tokenizer, begin="<s>")


def mistral():
    tokenizer = pieces(Tokenizer(models.BPE()), True, True)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace("▁", "first", split=False)
    tokenizer.decoder = decoders.Sequence(LLAMA2_DECODER)
    tokenizer.add_special_tokens([AddedToken("[INST]", normalized=False), AddedToken("[/INST]", normalized=False)])
    return around(tokenizer, begin="<s>")


def gemma():
    tokenizer = pieces(Tokenizer(models.BPE()), False, True)
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.add_tokens([AddedToken("\n" * n, normalized=False) for n in range(2, 8)] + [AddedToken("▁" * n, normalized=False) for n in range(2, 8)])
    return around(tokenizer, begin="<s>")


def unigram(normalizer, pre_tokenizer, byte_fallback=False):
    learner = Tokenizer(models.Unigram())
    learner.pre_tokenizer = pre_tokenizers.Metaspace()
    special = ["<pad>", "</s>", "<unk>", *(BYTE_TOKENS if byte_fallback else [])]
    scripts = ("latin", "greek", "cyrillic", "devanagari", "thai", "kana", "full-width", "latin-accents")[:4 if SIZE < 1000 else None]  # all characters become tokens
    learner.train_from_iterator(corpus(scripts), trainers.UnigramTrainer(vocab_size=SIZE + 500, special_tokens=special, unk_token="<unk>", show_progress=False))
    learned = json.loads(learner.to_str())["model"]["vocab"]
    tokenizer = Tokenizer(models.Unigram([tuple(entry) for entry in learned], unk_id=2, byte_fallback=byte_fallback))
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()]) if byte_fallback else decoders.Metaspace()
    tokenizer.add_special_tokens(["<pad>", "</s>", "<unk>"])
    return around(tokenizer, end="</s>")


def character_map():
    """SentencePiece's own table for NFKC, from a model that it trains."""
    import io

    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(["a few words of text", "and some more words"] * 20), model_writer=out, vocab_size=30,
                                             hard_vocab_limit=False, minloglevel=2)
    model = sentencepiece_model_pb2.ModelProto()
    model.ParseFromString(out.getvalue())
    return model.normalizer_spec.precompiled_charsmap


def t5():
    cut = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace("▁", "always")])
    return unigram(normalizers.Precompiled(character_map()), cut)


def unigram_bytes():
    strip = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " "), normalizers.Strip(left=True, right=False)])
    return unigram(strip, pre_tokenizers.Metaspace("▁", "first"), byte_fallback=True)


def bert():
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.train_from_iterator(corpus(), trainers.WordPieceTrainer(vocab_size=SIZE, special_tokens=["[UNK]", "[CLS]", "[SEP]"], show_progress=False))
    return around(tokenizer, begin="[CLS]", end="[SEP]")


def words():
    """Everything that the others leave out: added tokens that take spaces or stand alone, what ends words, other cuts."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", continuing_subword_prefix="##", end_of_word_suffix="</w>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Digits(individual_digits=True)])
    tokenizer.train_from_iterator(corpus(), trainers.BpeTrainer(vocab_size=SIZE, special_tokens=["<unk>"], continuing_subword_prefix="##",
                                                                end_of_word_suffix="</w>", limit_alphabet=SIZE // 10, show_progress=False))
    tokenizer.decoder = decoders.BPEDecoder("</w>")
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, normalized=False), AddedToken("<|im_end|>", rstrip=True, normalized=False)])
    tokenizer.add_tokens([AddedToken("The", single_word=True), AddedToken("Ärger", normalized=True), AddedToken("<s>", lstrip=True, rstrip=True)])
    return tokenizer


FAMILIES = {f.__name__: f for f in (gpt2, llama3, qwen2, gpt_oss, kimi, deepseek, falcon, neox, llama2, mistral, gemma, t5, unigram_bytes, bert, words)}


def write(folder, names=()):
    for name in names or FAMILIES:
        path = pathlib.Path(folder) / name / "tokenizer.json"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            FAMILIES[name]().save(str(path))
        yield name, path


if __name__ == "__main__":
    for name, path in write(sys.argv[1], sys.argv[2:]):
        print(name, path)
