"""Lines of the formats that people keep chats in, as conversations or plain texts. Python's standard library only."""
import dataclasses
import json


class BadInput(Exception):
    """What is wrong with the input, and where: for the user, without a stack trace."""


@dataclasses.dataclass
class Conversation:
    """Messages as apply_chat_template takes them."""
    messages: list
    tools: list | None = None
    arguments: dict = dataclasses.field(default_factory=dict)  # further arguments of the template
    first_answer: int = 0  # messages before this one are a prompt: no answer in it counts
    # Where a row came as strings: the same without a template, (prompt, answer).
    plain: tuple | None = None


@dataclasses.dataclass
class Text:
    """A text without roles: all of it counts."""
    text: str


SHAREGPT_ROLES = {"system": "system", "human": "user", "user": "user", "gpt": "assistant", "chatgpt": "assistant", "bing": "assistant",
                  "bard": "assistant", "model": "assistant", "assistant": "assistant", "tool": "tool", "observation": "tool",
                  "function_response": "tool"}

# Stanford Alpaca's prompts: what such rows mean where there is no chat template.
ALPACA = ("Below is an instruction that describes a task. Write a response that appropriately completes the request.\n\n"
          "### Instruction:\n{instruction}\n\n### Response:\n")
ALPACA_WITH_INPUT = ("Below is an instruction that describes a task, paired with an input that provides further context. Write a response "
                     "that appropriately completes the request.\n\n### Instruction:\n{instruction}\n\n### Input:\n{input}\n\n### Response:\n")


def checked_messages(messages, key):
    """The list, once every message has a role."""
    if not isinstance(messages, list) or not messages:
        raise BadInput(f"'{key}' is not a list with messages")
    for index, message in enumerate(messages):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise BadInput(f"message {index} of '{key}' has no 'role'")
        if not isinstance(message.get("content", ""), (str, list, type(None))):
            raise BadInput(f"the content of message {index} of '{key}' is neither a text nor a list of parts")
    return messages


def from_sharegpt(turns, key):
    """[{"from", "value"}, ...] to [{"role", "content"}, ...]."""
    messages = []
    for index, turn in enumerate(turns):
        speaker = turn.get("from") if isinstance(turn, dict) else None
        if speaker not in SHAREGPT_ROLES:
            raise BadInput(f"turn {index} of '{key}' is from {speaker!r}; known are {', '.join(SHAREGPT_ROLES)}")
        if not isinstance(turn.get("value"), str):
            raise BadInput(f"turn {index} of '{key}' has no text in 'value'")
        messages.append({"role": SHAREGPT_ROLES[speaker], "content": turn["value"]})
        if "weight" in turn:
            messages[-1]["weight"] = turn["weight"]
    return messages


def text_of(row, key):
    if not isinstance(row[key], str):
        raise BadInput(f"'{key}' is not a text")
    return row[key]


def with_system(row, messages):
    system = row.get("system")
    return [{"role": "system", "content": system}, *messages] if isinstance(system, str) and system else messages


def from_prompt(row, answer_key):
    prompt, answer = row["prompt"], row[answer_key]
    if isinstance(prompt, list) and isinstance(answer, list):
        return Conversation(checked_messages(prompt, "prompt") + checked_messages(answer, answer_key), first_answer=len(prompt))
    prompt, answer = text_of(row, "prompt"), text_of(row, answer_key)
    messages = [{"role": "user", "content": prompt}, {"role": "assistant", "content": answer}]
    return Conversation(with_system(row, messages), plain=(prompt, answer))


def from_alpaca(row, answer_key):
    instruction, answer = text_of(row, "instruction"), text_of(row, answer_key)
    more = row.get("input") or ""
    if not isinstance(more, str):
        raise BadInput("'input' is not a text")
    asked = f"{instruction}\n\n{more}" if more else instruction
    prompt = (ALPACA_WITH_INPUT if more else ALPACA).format(instruction=instruction, input=more)
    messages = [{"role": "user", "content": asked}, {"role": "assistant", "content": answer}]
    return Conversation(with_system(row, messages), plain=(prompt, answer))


def add_template_inputs(row, conversation):
    """Columns that are for the template: tools (a list, or its JSON as a text) and chat_template_kwargs."""
    tools = row.get("tools")
    if isinstance(tools, str) and tools.strip():
        try:
            tools = json.loads(tools)
        except ValueError:
            raise BadInput("'tools' is a text that is not JSON") from None
    if tools and not isinstance(tools, list):
        raise BadInput("'tools' is not a list")
    conversation.tools = tools or None
    arguments = row.get("chat_template_kwargs") or {}
    if not isinstance(arguments, dict):
        raise BadInput("'chat_template_kwargs' is not an object")
    conversation.arguments = arguments
    return conversation


def parse_row(row):
    """A line's value to a Conversation or a Text; BadInput says what it has instead."""
    if isinstance(row, str):
        return Text(row)
    if not isinstance(row, dict):
        raise BadInput("is neither an object nor a text")
    answers = [key for key in ("completion", "response", "output") if key in row]
    if "messages" in row:
        return add_template_inputs(row, Conversation(checked_messages(row["messages"], "messages")))
    for key in ("conversations", "conversation"):
        if isinstance(row.get(key), list) and row[key]:
            is_sharegpt = isinstance(row[key][0], dict) and "from" in row[key][0]
            messages = from_sharegpt(row[key], key) if is_sharegpt else checked_messages(row[key], key)
            return add_template_inputs(row, Conversation(with_system(row, messages)))
    if "chosen" in row and "rejected" in row:
        raise BadInput("holds pairs of preferences (chosen, rejected), which need another loss than the next token's")
    if "instruction" in row and answers:
        return add_template_inputs(row, from_alpaca(row, answers[-1]))
    if "prompt" in row and answers:
        return add_template_inputs(row, from_prompt(row, answers[0]))
    if "text" in row:
        return Text(text_of(row, "text"))
    raise BadInput(f"has the keys {', '.join(map(repr, row)) or 'none'}; known are messages, conversations (ShareGPT), prompt with completion, "
                   "instruction with output (alpaca), and text")


def read_json_list(path, text):
    try:
        rows = json.loads(text)
    except ValueError as error:
        raise BadInput(f"{path}: is not JSON: {error}") from None
    if not isinstance(rows, list):
        rows = [rows]
    for number, row in enumerate(rows, 1):
        yield f"{path}: row {number}", row


def read_rows(path, progress=lambda count: None):
    """(place, value) of each row: lines of JSON, one JSON list, or with .txt the lines themselves. `progress` gets the bytes read."""
    with open(path, "rb") as file:
        if path.endswith(".json"):
            head = file.read(4096).lstrip()
            file.seek(0)
            if head.startswith(b"["):
                text = file.read()
                yield from read_json_list(path, text)
                progress(len(text))
                return
        for number, line in enumerate(file, 1):
            progress(len(line))
            place = f"{path}: line {number}"
            try:
                line = line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError:
                raise BadInput(f"{place}: is not UTF-8") from None
            if not line.strip():
                continue
            if path.endswith(".txt"):
                yield place, line.rstrip("\r\n")
                continue
            try:
                row = json.loads(line)
            except ValueError as error:
                raise BadInput(f"{place}: is not JSON: {error}; a file with one text a line is called .txt") from None
            yield place, row
