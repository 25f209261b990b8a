"""Conversations to rows of tokens, with what counts: by positions in the rendered text, never by token ids."""
import dataclasses

from .formats import BadInput, Conversation


@dataclasses.dataclass
class Row:
    """Tokens of a row before it is cut and padded, and which of them count as targets."""
    tokens: list
    counted: list  # of each token False, or its answer's weight
    text: str
    endless: int = 0  # answers that no reserved token ends
    altered: int = 0  # answers that the template does not write as they are in the data
    merged: bool = False  # a token holds the end of a prompt and the beginning of its answer


@dataclasses.dataclass
class Encoding:
    """A text as tokens; offsets are (begin, end) of each token in characters of the text."""
    text: str
    tokens: list
    offsets: list


def common_length(a, b):
    """How many items two sequences begin with together."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def first_token_after(encoding, start):
    """The first token with something of the text after `start`. Offsets leave out spaces, so a token may be empty."""
    for index, (_, end) in enumerate(encoding.offsets):
        if end > start:
            return index
    return len(encoding.tokens)


class ChatRows:
    """Rows of conversations under a tokenizer of transformers and its chat template."""

    # What no template takes apart; two that share neither the first nor the last letter.
    SENTINELS = ("Aa0zenith", "Bb1quota")

    def __init__(self, tokenizer, train_on="assistant", arguments=None):
        self.tokenizer = tokenizer
        self.train_on = train_on
        self.arguments = arguments or {}
        added = tokenizer.added_tokens_decoder
        self.reserved = {index for index, token in added.items() if token.special} | set(tokenizer.all_special_ids)
        self.prompts = self.has_generation_prompt() if tokenizer.chat_template else False

    def render(self, conversation, count=None, prompt=False, messages=None):
        """The text of the first `count` messages."""
        messages = conversation.messages[:count] if messages is None else messages
        return self.tokenizer.apply_chat_template(messages, tools=conversation.tools, tokenize=False, add_generation_prompt=prompt,
                                                  **{**self.arguments, **conversation.arguments})

    def encode(self, text, special=False):
        out = self.tokenizer(text, add_special_tokens=special, return_offsets_mapping=True)
        return Encoding(text, list(out["input_ids"]), out["offset_mapping"])

    def has_generation_prompt(self):
        """Whether the template can write what comes before an answer."""
        ask = [{"role": "user", "content": "Hello"}]
        try:
            with_it = self.tokenizer.apply_chat_template(ask, tokenize=False, add_generation_prompt=True, **self.arguments)
            return with_it != self.tokenizer.apply_chat_template(ask, tokenize=False, **self.arguments)
        except Exception:  # jinja2's, or one that the template raises: said where a conversation meets it
            return False

    def header_length(self, conversation, turn):
        """Characters before the content of message `turn` in a text that ends with it, found by writing something else there."""
        texts = []
        for word in self.SENTINELS:
            message = dict(conversation.messages[turn])
            keys = [key for key in ("reasoning_content", "thinking", "reasoning", "content") if isinstance(message.get(key), str) and message[key]]
            if not keys:
                return None
            message.update({key: word for key in keys})
            texts.append(self.render(conversation, messages=[*conversation.messages[:turn], message]))
        return common_length(*texts)

    def answer_start(self, conversation, turn, text):
        """Where in `text`, which ends with answer `turn`, the prompt before it ends."""
        prompt = None
        if turn:
            try:
                prompt = self.render(conversation, turn, prompt=True)
            except Exception:  # such a beginning is not a conversation for this template
                prompt = None
        if prompt is not None and self.prompts and text.startswith(prompt):
            return len(prompt)
        header = self.header_length(conversation, turn)
        if header is None or text[:header].rstrip(" ") == "" and turn:
            header = common_length(prompt or "", text)
        start = len(text[:header].rstrip(" "))
        if prompt is not None and text.startswith(prompt):
            start = max(start, len(prompt))
        return start

    def answer_tokens(self, encoding, start):
        """(first, end, content): the tokens [first, end) of the last answer in a text, from character `start` on, with the reserved tokens
        that end it; the latter begin at `content`."""
        first = first_token_after(encoding, start)
        content = len(encoding.tokens)
        while content > first and (encoding.tokens[content - 1] in self.reserved or self.is_blank(encoding, content - 1)):
            content -= 1
        end = content
        while end < len(encoding.tokens) and encoding.tokens[end] in self.reserved:
            end += 1
        if end == content:  # spaces, or a line's end, before the token that ends the answer
            ends = [i for i in range(content, len(encoding.tokens)) if encoding.tokens[i] in self.reserved]
            end = ends[0] + 1 if ends else len(encoding.tokens)
        return first, end, content

    def is_blank(self, encoding, index):
        begin, end = encoding.offsets[index]
        return not encoding.text[begin:end].strip()

    def answers(self, conversation):
        """Messages that count."""
        found = [i for i, message in enumerate(conversation.messages)
                 if message["role"] in ("assistant", "model") and i >= conversation.first_answer and message.get("weight", 1) != 0]
        return found[-1:] if self.train_on == "last" else found

    def conversation_rows(self, conversation):
        """One row, or several where the template writes earlier answers otherwise once others follow."""
        conversation.messages = [{k: v for k, v in m.items() if v is not None} for m in conversation.messages]
        remaining = [] if self.train_on == "all" else self.answers(conversation)
        weights = [message.pop("weight", 1) for message in conversation.messages]  # the template has no use for them
        for turn in remaining:
            if isinstance(weights[turn], bool) or not isinstance(weights[turn], (int, float)) or not 0 <= weights[turn] <= 2 ** 24:
                raise BadInput(f"the weight of message {turn} is {weights[turn]!r}; weights are numbers from 0 on")
        rows, text = [], self.render(conversation)
        if not remaining:
            tokens = self.encode(text).tokens
            return [Row(tokens, [self.train_on == "all"] * len(tokens), text)]
        parts = {turn: self.render(conversation, turn + 1) for turn in remaining}
        starts = {turn: self.answer_start(conversation, turn, parts[turn]) for turn in remaining}
        while remaining:
            row, held = self.row_of(text, {turn: (parts[turn], starts[turn]) for turn in remaining}, weights)
            row.altered = sum(not self.is_whole(conversation.messages[turn], parts[turn]) for turn in held)
            if held:
                rows.append(row)
            remaining = [turn for turn in remaining if turn not in held]
            if remaining and text == parts[remaining[-1]]:
                remaining.pop()  # an empty answer that nothing ends
            if remaining:
                text = parts[remaining[-1]]
        return rows[::-1] or [Row(self.encode(text).tokens, [False] * len(self.encode(text).tokens), text)]

    @staticmethod
    def is_whole(message, text):
        """Whether an answer stands in the text as it is in the data, spaces aside."""
        content = message.get("content")
        return not isinstance(content, str) or "".join(content.split()) in "".join(text.split())

    def row_of(self, text, answers, weights):
        """The row of `text` and the answers that stand in it as they do where they come last. `answers`: turn -> (text up to it, start); weights of all turns."""
        whole = self.encode(text)
        row, held = Row(whole.tokens, [False] * len(whole.tokens), text), []
        for turn, (part, start) in answers.items():
            own = whole if part == text else self.encode(part)
            first, end, content = self.answer_tokens(own, start)
            common = len(own.tokens) if own is whole else common_length(whole.tokens, own.tokens)
            has_end = end > content and own.tokens[end - 1] in self.reserved
            if common < (content + 1 if has_end else content) or common <= first:
                continue
            held.append(turn)
            row.endless += not has_end
            row.merged |= first < len(own.tokens) and own.offsets[first][0] < start < own.offsets[first][1] \
                and bool(part[own.offsets[first][0]:start].strip())
            for index in range(first, min(end, common)):
                row.counted[index] = weights[turn]
        return row, held

    def end_tokens(self):
        """Ids that the template ends an answer with, in a small conversation; empty where it writes none or fails."""
        if not self.tokenizer.chat_template:
            return set()
        probe = Conversation([{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Good day"}])
        try:
            encoding = self.encode(self.render(probe))
        except Exception:
            return set()
        return {token for token in encoding.tokens[-3:] if token in self.reserved}

    def text_row(self, prompt, answer):
        """Texts without a template: what the tokenizer puts around a text, an end token, and the answer counts."""
        text = prompt + answer
        begin = self.tokenizer.bos_token
        encoding = self.encode(text, special=not (begin and text.startswith(begin)))
        tokens, offsets = encoding.tokens, encoding.offsets
        first = first_token_after(encoding, len(prompt)) if prompt else 0
        end = self.tokenizer.eos_token_id
        has_end = end is not None or bool(tokens) and tokens[-1] in self.reserved
        if end is not None and (not tokens or tokens[-1] != end):
            tokens = tokens + [end]
        merged = bool(prompt) and first < len(offsets) and offsets[first][0] < len(prompt) and bool(text[offsets[first][0]:len(prompt)].strip())
        return Row(tokens, [i >= first for i in range(len(tokens))], text, endless=not has_end, merged=merged)
