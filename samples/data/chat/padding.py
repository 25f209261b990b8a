"""The token that fills rows up: one that ends nothing, where there is such a one."""
import json
import pathlib

# In the order in which they are taken, then any reserved token with "pad" in its name, then those that are there for nothing.
USUAL = ("<|finetune_right_pad_id|>", "<pad>", "[PAD]", "<|pad|>", "<PAD>", "<|padding|>", "<|PAD_TOKEN|>")
OF_OTHER_INPUTS = ("image", "vision", "video", "audio")


def end_tokens(tokenizer, folder, of_template):
    """Ids that end a text or an answer: the tokenizer's, generation_config.json's, config.json's, the template's."""
    ends = set(of_template)
    if tokenizer.eos_token_id is not None:
        ends.add(tokenizer.eos_token_id)
    for name in ("generation_config.json", "config.json"):
        path = pathlib.Path(folder) / name
        try:
            value = json.loads(path.read_text()).get("eos_token_id")
        except (OSError, ValueError, AttributeError):
            continue
        ends.update(x for x in (value if isinstance(value, list) else [value]) if isinstance(x, int))
    return ends


def choose_padding(tokenizer, ends, vocabulary, template):
    """(id, sentence that says why, whether it was chosen here)."""
    def usable(token):
        return token is not None and token not in ends and (vocabulary is None or token < vocabulary)

    own = tokenizer.pad_token_id
    if usable(own):
        return own, "the tokenizer's own", False
    why = "the tokenizer names none" if own is None else f"the tokenizer's own, {tokenizer.convert_ids_to_tokens(own)}, " + (
        "ends a text" if own in ends else "lies beyond the model's vocabulary")
    reserved = {str(token.content): index for index, token in sorted(tokenizer.added_tokens_decoder.items())
                if token.special and usable(index)}
    free = {name: index for name, index in reserved.items() if name not in (template or "") and index != tokenizer.bos_token_id}
    padding = [name for name in free if "pad" in name.lower()]
    names = [*(name for name in USUAL if name in free), *(n for n in padding if not any(x in n.lower() for x in OF_OTHER_INPUTS)), *padding,
             *(name for name in free if "reserved" in name.lower() or "unused" in name.lower() or "extra" in name.lower()),
             *(name for name in free if free[name] == tokenizer.unk_token_id), *free, *reserved]
    if names:
        return reserved[names[0]], f"chosen: {why}", True
    fallback = own if own is not None else tokenizer.eos_token_id
    if fallback is None:
        fallback = 0
    return fallback, f"{why}, and there is no other reserved token", True
