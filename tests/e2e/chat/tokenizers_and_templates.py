"""Small tokenizers and chat templates in the styles that models use, written for these tests."""
import json

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

TEXT = ["Hello, how are you today? I am fine, thank you.", "What is two plus two? Two plus two is four.", "You are a helpful assistant.",
        "Write a poem about the sea.\n\nThe sea is wide and blue.", "Below is an instruction that describes a task.", "### Instruction:\n### Response:\n"]

CHATML = """{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>' + '\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}"""

# The same without a word on generation, as minimal templates are.
CHATML_BARE = """{% for message in messages %}<|im_start|>{{ message['role'] }}
{{ message['content'] }}<|im_end|>
{% endfor %}"""

LLAMA3 = """{{- bos_token }}
{%- set system = 'Cutting Knowledge Date: December 2023' %}
{{- '<|start_header_id|>system<|end_header_id|>\n\n' + system + '<|eot_id|>' }}
{%- for message in messages %}
    {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' + message['content'] | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}
{%- endif %}"""

GEMMA = """{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}
{%- for message in messages %}
{%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Roles must alternate') }}{% endif %}
{%- set role = 'model' if message['role'] == 'assistant' else message['role'] %}
{{- '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<start_of_turn>model\n' }}{%- endif %}"""

MISTRAL = """{{ bos_token }}{% for message in messages %}{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}
{%- elif message['role'] == 'assistant' %}{{ ' ' + message['content'] + eos_token }}{% else %}{{ raise_exception('Only user and assistant') }}
{%- endif %}{% endfor %}"""

# Earlier thinking goes once another question follows; the last answer gets an empty thought where it has none.
THINKING = """{%- set ns = namespace(last=-1) %}
{%- for message in messages %}{%- if message.role == 'user' %}{%- set ns.last = loop.index0 %}{%- endif %}{%- endfor %}
{%- for message in messages %}
    {%- set content = message.content if message.content is string else '' %}
    {%- set thought = '' %}
    {%- if message.reasoning_content is string %}{%- set thought = message.reasoning_content %}
    {%- elif '</think>' in content %}
        {%- set thought = content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') %}
        {%- set content = content.split('</think>')[-1].lstrip('\n') %}
    {%- endif %}
    {{- '<|im_start|>' + message.role + '\n' }}
    {%- if message.role == 'assistant' and loop.index0 > ns.last and (loop.last or thought) %}
        {{- '<think>\n' + thought.strip('\n') + '\n</think>\n\n' + content.lstrip('\n') }}
    {%- else %}{{- content }}{%- endif %}
    {{- '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\n\n</think>\n\n' }}{%- endif %}
{%- endif %}"""

# A last token that stands after the whole conversation only.
PHI = """{% for message in messages %}{{ '<|' + message['role'] + '|>\n' + message['content'] + '<|end|>\n' }}{% endfor %}
{%- if add_generation_prompt %}{{- '<|assistant|>\n' }}{%- else %}{{- eos_token }}{%- endif %}"""

ALPACA = """{% for message in messages %}{% if message['role'] == 'user' %}{{ '### Instruction:\n' + message['content'] + '\n\n' }}
{%- else %}{{ '### Response:\n' + message['content'] + eos_token + '\n\n' }}{% endif %}{% endfor %}
{%- if add_generation_prompt %}{{ '### Response:\n' }}{% endif %}"""

# Tools as JSON, and blocks that mark what the assistant writes.
TOOLS = """{%- if tools %}{{- '<|im_start|>system\n' + tools | tojson + '<|im_end|>\n' }}{%- endif %}
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\n' }}
    {%- if message.role == 'assistant' %}{% generation %}{{- message.content }}
    {%- for call in message.tool_calls or [] %}{{- '<tool_call>' + call.function | tojson + '</tool_call>' }}{%- endfor %}
    {{- '<|im_end|>' }}{% endgeneration %}{{- '\n' }}
    {%- else %}{{- message.content + '<|im_end|>\n' }}{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}"""


def save(folder, tokenizer, names, template, name="PreTrainedTokenizerFast", vocabulary=None, **config):
    """A model's folder as far as its tokenizer goes. `names`: bos_token, eos_token, pad_token, ..."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": name, "clean_up_tokenization_spaces": False, "model_max_length": 1000000, **names}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    if template is not None:
        (folder / "chat_template.jinja").write_text(template)
    if vocabulary:
        (folder / "config.json").write_text(json.dumps({"vocab_size": vocabulary, **config}))
    return folder


def byte_level(specials, size=380):
    """As GPT-2, Llama 3 and Qwen have it."""
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=specials, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator(TEXT, trainer)
    return tokenizer


def pieces(specials, size=420):
    """As Llama 2 and Gemma have it: words begin with a mark, what is not known goes byte by byte."""
    tokenizer = tokenizers.Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Replace(" ", "\u2581")
    tokenizer.pre_tokenizer = pre_tokenizers.Split("\u2581", "merged_with_next")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    known = list(specials) + [f"<0x{i:02X}>" for i in range(256)]
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=known, show_progress=False)
    tokenizer.train_from_iterator([x.replace(" ", "\u2581") for x in TEXT], trainer)
    described = json.loads(tokenizer.to_str())
    described["added_tokens"] = [x for x in described["added_tokens"] if not x["content"].startswith("<0x")]
    return tokenizers.Tokenizer.from_str(json.dumps(described))


def with_begin(tokenizer, token):
    """Puts a begin token before texts, as Llama's do where special tokens are asked for."""
    from tokenizers import processors
    tokenizer.post_processor = processors.TemplateProcessing(single=f"{token} $A", special_tokens=[(token, tokenizer.token_to_id(token))])
    return tokenizer


def letters(size=200):
    """A vocabulary of fewer than 256 tokens: for models that are at hand in the repository."""
    tokenizer = tokenizers.Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    specials = ["<unk>", "<|im_start|>", "<|im_end|>", "<pad>"]
    tokenizer.train_from_iterator(TEXT, trainers.BpeTrainer(vocab_size=size, special_tokens=specials, show_progress=False))
    return tokenizer
