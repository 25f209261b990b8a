"""The logits of a small Llama folder in Python alone: what tests of text hold ztc's numbers against. Takes the folders that write_tiny_llama() describes, in fp32."""
import json
import math
import pathlib

from support import read_safetensors


class TinyLlama:
    def __init__(self, folder):
        folder = pathlib.Path(folder)
        self.config = json.loads((folder / "config.json").read_text())
        self.tensors = {}
        for path in folder.glob("*.safetensors"):
            for name, (shape, values) in read_safetensors(path).items():
                width = shape[-1]
                self.tensors[name] = [values[i:i + width] for i in range(0, len(values), width)] if len(shape) == 2 else list(values)

    def linear(self, name, row):
        return [sum(w * x for w, x in zip(weights, row)) for weights in self.tensors[name + ".weight"]]

    def norm(self, name, row):
        scale = 1 / math.sqrt(sum(x * x for x in row) / len(row) + self.config["rms_norm_eps"])
        return [w * x * scale for w, x in zip(self.tensors[name + ".weight"], row)]

    def heads(self, row, count, position=None):
        """The row cut into heads; with a position, turned by it."""
        width = len(row) // count
        out = []
        for head in (row[i * width:(i + 1) * width] for i in range(count)):
            if position is not None:
                half = width // 2
                angles = [position / self.config["rope_theta"] ** (2 * i / width) for i in range(half)]
                head = ([head[i] * math.cos(a) - head[i + half] * math.sin(a) for i, a in enumerate(angles)]
                        + [head[i + half] * math.cos(a) + head[i] * math.sin(a) for i, a in enumerate(angles)])
            out.append(head)
        return out

    def attention(self, name, rows):
        count, groups = self.config["num_attention_heads"], self.config["num_key_value_heads"]
        q, k, v = ([self.heads(self.linear(f"{name}.{part}_proj", row), heads, position if turns else None) for position, row in enumerate(rows)]
                   for part, heads, turns in (("q", count, True), ("k", groups, True), ("v", groups, False)))
        out = []
        for t in range(len(rows)):
            mixed = []
            for head in range(count):
                group = head * groups // count
                scores = [sum(a * b for a, b in zip(q[t][head], k[s][group])) / math.sqrt(len(q[t][head])) for s in range(t + 1)]
                most = max(scores)
                weights = [math.exp(score - most) for score in scores]
                mixed += [sum(w * v[s][group][i] for s, w in enumerate(weights)) / sum(weights) for i in range(len(q[t][head]))]
            out.append(self.linear(f"{name}.o_proj", mixed))
        return out

    def logits(self, tokens):
        """Of each place of a text."""
        rows = [list(self.tensors["model.embed_tokens.weight"][token]) for token in tokens]
        add = lambda many, more: [[a + b for a, b in zip(x, y)] for x, y in zip(many, more)]
        for layer in range(self.config["num_hidden_layers"]):
            name = f"model.layers.{layer}"
            rows = add(rows, self.attention(f"{name}.self_attn", [self.norm(f"{name}.input_layernorm", row) for row in rows]))
            inner = []
            for row in (self.norm(f"{name}.post_attention_layernorm", row) for row in rows):
                gate, up = self.linear(f"{name}.mlp.gate_proj", row), self.linear(f"{name}.mlp.up_proj", row)
                inner.append(self.linear(f"{name}.mlp.down_proj", [g / (1 + math.exp(-g)) * u for g, u in zip(gate, up)]))
            rows = add(rows, inner)
        return [self.linear("lm_head", self.norm("model.norm", row)) for row in rows]

    def log_probabilities(self, tokens):
        """Of each place's next token, over the vocabulary."""
        out = []
        for row in self.logits(tokens):
            most = max(row)
            total = most + math.log(sum(math.exp(x - most) for x in row))
            out.append([x - total for x in row])
        return out
