"""The work of prepare_chat.py, from files to a file, and what is said about it."""
import json
import os
import pathlib
import sys

import jinja2
import tqdm
import transformers

from .formats import BadInput, Conversation, Text, parse_row, read_rows
from .padding import choose_padding, end_tokens
from .rows import ChatRows
from .token_file import TokenFile

MARKS = "\N{MATHEMATICAL LEFT WHITE SQUARE BRACKET}", "\N{MATHEMATICAL RIGHT WHITE SQUARE BRACKET}"


def load_tokenizer(options):
    folder = options.tokenizer
    if not os.path.isdir(folder):
        raise BadInput(f"--tokenizer {folder}: is not a folder")
    transformers.logging.set_verbosity_error()
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except Exception as error:  # whatever the many tokenizer classes raise
        raise BadInput(f"--tokenizer {folder}: transformers cannot load it: {str(error).strip().splitlines()[0]}") from None
    if not getattr(tokenizer, "is_fast", False):
        raise BadInput(f"--tokenizer {folder}: {type(tokenizer).__name__} does not say which characters a token stands for; a tokenizer.json is needed")
    if options.chat_template:
        tokenizer.chat_template = pathlib.Path(options.chat_template).read_text()
    elif isinstance(tokenizer.chat_template, dict):
        tokenizer.chat_template = tokenizer.get_chat_template()
    return tokenizer


def read_config(folder):
    """config.json of the model, or of its text part; {} where there is none."""
    try:
        config = json.loads((pathlib.Path(folder) / "config.json").read_text())
    except (OSError, ValueError):
        return {}
    return {**config, **config["text_config"]} if isinstance(config.get("text_config"), dict) else config


class Counts:
    """What became of the rows."""

    def __init__(self):
        self.read = self.split = self.cut = self.dropped = self.without_target = self.bad = 0
        self.targets = self.tokens = self.longest = self.endless = self.merged = self.altered = 0
        self.first_bad = self.first_split = None


class Preparation:
    """Settings and counts of one run."""

    def __init__(self, options):
        self.options, self.counts = options, Counts()
        self.tokenizer = load_tokenizer(options)
        config = read_config(options.tokenizer)
        self.vocabulary = options.vocabulary or config.get("vocab_size")
        limit = config.get("max_position_embeddings") or config.get("n_positions")
        self.seq = options.seq or min(2048, limit or 2048)
        if limit and self.seq > limit:
            raise BadInput(f"--seq {self.seq} is above the position limit {limit} of the model in {options.tokenizer}")
        self.builder = ChatRows(self.tokenizer, options.train_on, options.template_arguments)
        ends = end_tokens(self.tokenizer, options.tokenizer, self.builder.end_tokens())
        self.padding, self.padding_reason, self.padding_chosen = choose_padding(self.tokenizer, ends, self.vocabulary, self.tokenizer.chat_template)
        self.padding_ends = self.padding in ends
        self.example = None

    def rows_of(self, value):
        """Rows of one line's value."""
        item = parse_row(value)
        if isinstance(item, Text):
            return [self.builder.text_row("", item.text)]
        if item.plain and (self.options.plain or not self.tokenizer.chat_template):
            row = self.builder.text_row(*item.plain)
            if self.options.train_on == "all":
                row.counted = [True] * len(row.tokens)
            return [row]
        if not self.tokenizer.chat_template:
            raise BadInput(f"the tokenizer in {self.options.tokenizer} has no chat template, which messages need: give one with --chat-template FILE")
        try:
            return self.builder.conversation_rows(item)
        except jinja2.exceptions.TemplateError as error:
            raise BadInput(f"the chat template refuses this conversation: {error}") from None
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise BadInput(f"the chat template fails on this conversation: {error}") from None

    def check_vocabulary(self, row):
        if self.vocabulary is None:
            return
        for token in row.tokens:
            if token >= self.vocabulary:
                text = self.tokenizer.convert_ids_to_tokens(token)
                raise BadInput(f"the token {token} ({text!r}) lies beyond the model's vocabulary of {self.vocabulary} (0 to {self.vocabulary - 1}): tokenizer "
                               "and model do not belong together, or the model's embedding was not made larger for it")

    def add(self, row, file):
        """Cuts, drops, pads and counts one row."""
        counts, seq = self.counts, self.seq
        counts.longest = max(counts.longest, len(row.tokens))
        if len(row.tokens) > seq and self.options.long == "drop":
            counts.dropped += 1
            return
        is_cut = len(row.tokens) > seq
        targets = sum(map(bool, row.counted[1:seq]))  # the first token of a row is nobody's target
        if targets == 0:
            counts.without_target += 1
            return
        counts.cut += is_cut
        counts.endless += row.endless
        counts.merged += row.merged
        counts.altered += row.altered
        counts.targets += targets
        counts.tokens += min(len(row.tokens), seq)
        file.add(row.tokens, row.counted, self.padding)
        if self.example is None or self.example[2] and not is_cut:  # one that is whole shows more
            self.example = (file.rows, row, is_cut)

    def read_all(self, file):
        size = sum(os.path.getsize(path) for path in self.options.inputs)
        counts = self.counts
        with tqdm.tqdm(total=size, unit="B", unit_scale=True, desc="tokens", disable=None) as bar:
            for path in self.options.inputs:
                for place, value in read_rows(path, bar.update):
                    counts.read += 1
                    try:
                        rows = self.rows_of(value)
                        for row in rows:
                            self.check_vocabulary(row)
                    except BadInput as error:
                        if not self.options.skip_bad:
                            raise BadInput(f"{place}: {error}") from None
                        counts.bad += 1
                        counts.first_bad = counts.first_bad or f"{place}: {error}"
                        continue
                    if len(rows) > 1:
                        counts.split += 1
                        counts.first_split = counts.first_split or place
                    for row in rows:
                        self.add(row, file)

    def marked_text(self, row):
        """The row's text with what counts between marks."""
        tokens, counted = row.tokens[:self.seq], row.counted[:self.seq]
        text, begin = "", 0
        for index in range(1, len(tokens) + 1):
            if index == len(tokens) or counted[index] != counted[begin]:
                piece = self.tokenizer.decode(tokens[begin:index], skip_special_tokens=False, clean_up_tokenization_spaces=False)
                text += MARKS[0] + piece + MARKS[1] if counted[begin] else piece
                begin = index
        return text

    def introduce(self):
        name = type(self.tokenizer).__name__
        vocabulary = f"model vocabulary {self.vocabulary}" if self.vocabulary else "the model's vocabulary is not known (no config.json): ids are not checked"
        print(f"tokenizer  {self.options.tokenizer}: {name}, {len(self.tokenizer)} tokens, transformers {transformers.__version__}; {vocabulary}")
        template = self.tokenizer.chat_template
        print(f"template   {'of ' + self.options.chat_template if self.options.chat_template else 'of the tokenizer' if template else 'none'}"
              + ("; it writes today's date into rows" if template and "strftime_now" in template else ""))
        shown = self.tokenizer.convert_ids_to_tokens(self.padding)
        print(f"padding    {shown} ({self.padding}), {self.padding_reason}" + ("; it ends texts too, labels go by position" if self.padding_ends else ""))

    def summarize(self, rows):
        c, count = self.counts, lambda n, what: f"{n} {what}{'' if n == 1 else 's'}"
        print(f"rows       {count(rows, 'row')} of {self.seq} tokens from {c.read} in the data; {c.cut} cut at {self.seq} tokens, "
              f"{c.dropped} dropped as longer, {c.without_target} dropped without a counted target"
              + (f", {c.bad} bad (the first: {c.first_bad})" if c.bad else "") + f"; the longest has {c.longest} tokens")
        if c.split:
            print(f"split      {count(c.split, 'conversation')} (first {c.first_split}): the template writes earlier answers otherwise once others follow "
                  "(their thinking is removed, or what ends them), so each such answer has a row of its own")
        if c.endless:
            print(f"warning    {count(c.endless, 'counted answer')} without a reserved token at the end: the model does not learn there when to stop")
        if c.altered:
            print(f"warning    {count(c.altered, 'counted answer')} not as in the data: the template leaves out or changes a part (thinking, for one), "
                  "and what it leaves out is not trained")
        if c.merged:
            print(f"warning    in {count(c.merged, 'row')} one token holds the end of a prompt and the beginning of the answer; it counts")
        print(f"targets    {c.targets} of {rows * self.seq} positions count ({100 * c.targets / (rows * self.seq):.1f} %), "
              f"{rows * self.seq - c.tokens} are padding ({100 - 100 * c.tokens / (rows * self.seq):.1f} %)")

    def show(self):
        number, row, _ = self.example
        missing = self.seq - len(row.tokens)
        print(f"row {number}, counted between {MARKS[0]} and {MARKS[1]}" + (f", then {missing} x padding" if missing > 0 else "") + ":")
        print(self.marked_text(row))


def prepare(options):
    """Writes the token file; BadInput on what is wrong with the data."""
    for path in options.inputs:
        if not os.path.isfile(path):
            raise BadInput(f"{path}: there is no such file")
    if hasattr(sys.stdout, "reconfigure"):  # a terminal may lack letters
        sys.stdout.reconfigure(errors="replace")
    work = Preparation(options)
    work.introduce()
    with TokenFile(options.output, work.seq) as file:
        work.read_all(file)
        if not file.rows:
            c = work.counts
            raise BadInput(f"no row is left: of {c.read} in the data {c.without_target} have no counted target, {c.dropped} are longer than {work.seq} tokens, "
                           f"{c.bad} are bad" + (f" ({c.first_bad})" if c.first_bad else "")
                           + ("; the longest has %d tokens" % c.longest if c.longest > work.seq else ""))
        file.complete()
        work.summarize(file.rows)
        work.show()
        print(f"wrote      {options.output}: ztc-run PLAN --data {options.output}, with a plan for --seq={work.seq}" + (" --loss-weights: answers have weights" if file.is_weighted else ""))
