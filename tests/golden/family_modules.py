"""Decoders in plain PyTorch as people write them by hand: tokens in, logits out. Each is small and shows one habit of writing."""
import math

import torch
from torch import nn
from torch.nn import functional as F

VOCABULARY, WIDTH, HEADS, LAYERS, LENGTH = 103, 40, 4, 2, 64


class WeightNorm(nn.Module):
    """RMSNorm as Llama's first code has it."""

    def __init__(self, width, epsilon=1e-5):
        super().__init__()
        self.weight, self.epsilon = nn.Parameter(torch.ones(width)), epsilon

    def forward(self, x):
        return self.weight * (x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + self.epsilon)).type_as(x)


class UnitNorm(nn.Module):
    """A norm by F.normalize, with a scale around one."""

    def __init__(self, width):
        super().__init__()
        self.gamma, self.scale = nn.Parameter(torch.zeros(width)), width**0.5

    def forward(self, x):
        return F.normalize(x, dim=-1) * self.scale * (self.gamma + 1)


class PlainLayerNorm(nn.Module):
    """LayerNorm with an optional bias."""

    def __init__(self, width, bias):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width)) if bias else None

    def forward(self, x):
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, 1e-5)


class HandLayerNorm(nn.Module):
    """LayerNorm written out, with the unbiased standard deviation of the annotated Transformer."""

    def __init__(self, width):
        super().__init__()
        self.a, self.b = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x):
        return self.a * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-6) + self.b


def split_heads(x, heads):
    b, s, w = x.shape
    return x.view(b, s, heads, w // heads).transpose(1, 2)


def join_heads(x):
    b, h, s, d = x.shape
    return x.transpose(1, 2).contiguous().view(b, s, h * d)


def angles(length, width, base=10000.0):
    return torch.outer(torch.arange(length).float(), base ** (-torch.arange(0, width, 2).float() / width))


class NanoGPT(nn.Module):
    """Fused q|k|v, F.scaled_dot_product_attention, learned positions, no biases, the head tied by assignment."""

    class Block(nn.Module):
        def __init__(self, bias):
            super().__init__()
            self.ln_1, self.ln_2 = PlainLayerNorm(WIDTH, bias), PlainLayerNorm(WIDTH, bias)
            self.c_attn, self.c_proj = nn.Linear(WIDTH, 3 * WIDTH, bias=bias), nn.Linear(WIDTH, WIDTH, bias=bias)
            self.c_fc, self.c_out = nn.Linear(WIDTH, 4 * WIDTH, bias=bias), nn.Linear(4 * WIDTH, WIDTH, bias=bias)
            self.gelu, self.dropout = nn.GELU(), nn.Dropout(0.1)

        def forward(self, x):
            q, k, v = (split_heads(t, HEADS) for t in self.c_attn(self.ln_1(x)).split(WIDTH, dim=2))
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=None, dropout_p=0.1 if self.training else 0, is_causal=True)
            x = x + self.dropout(self.c_proj(join_heads(y)))
            return x + self.dropout(self.c_out(self.gelu(self.c_fc(self.ln_2(x)))))

    def __init__(self, bias=False, tie=True):
        super().__init__()
        self.transformer = nn.ModuleDict(dict(wte=nn.Embedding(VOCABULARY, WIDTH), wpe=nn.Embedding(LENGTH, WIDTH), drop=nn.Dropout(0.1),
                                              h=nn.ModuleList([self.Block(bias) for _ in range(LAYERS)]), ln_f=PlainLayerNorm(WIDTH, bias)))
        self.lm_head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        if tie:
            self.transformer.wte.weight = self.lm_head.weight

    def forward(self, idx):
        t = idx.size(1)
        assert t <= LENGTH
        x = self.transformer.drop(self.transformer.wte(idx) + self.transformer.wpe(torch.arange(0, t, dtype=torch.long, device=idx.device)))
        for block in self.transformer.h:
            x = block(x)
        return self.lm_head(self.transformer.ln_f(x))


class MinGPT(nn.Module):
    """Softmax by hand under a registered mask, separate q, k, v, GELU by its formula, positions as a parameter."""

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln1, self.ln2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.key, self.query, self.value, self.proj = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
            self.up, self.down = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(3 * WIDTH, WIDTH)
            self.register_buffer("mask", torch.tril(torch.ones(LENGTH, LENGTH)).view(1, 1, LENGTH, LENGTH))

        def forward(self, x):
            t, h = x.size(1), self.ln1(x)
            q, k, v = (split_heads(f(h), HEADS) for f in (self.query, self.key, self.value))
            a = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
            a = F.softmax(a.masked_fill(self.mask[:, :, :t, :t] == 0, float("-inf")), dim=-1)
            x = x + self.proj(join_heads(a @ v))
            u = self.up(self.ln2(x))
            u = 0.5 * u * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (u + 0.044715 * torch.pow(u, 3.0))))
            return x + self.down(u)

    def __init__(self):
        super().__init__()
        self.tok_emb, self.pos_emb = nn.Embedding(VOCABULARY, WIDTH), nn.Parameter(0.1 * torch.randn(1, LENGTH, WIDTH))
        self.blocks = nn.Sequential(*[self.Block() for _ in range(LAYERS)])
        self.ln_f, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, idx):
        x = self.tok_emb(idx) + self.pos_emb[:, : idx.size(1), :]
        return self.head(self.ln_f(self.blocks(x)))


def rotate_pairs(x, cosine, sine):
    """llama2.c: neighbours are a pair; reshape and unbind."""
    a, b = x.float().reshape(x.shape[:-1] + (-1, 2)).unbind(-1)
    cosine, sine = cosine[None, :, None, :], sine[None, :, None, :]
    return torch.stack([a * cosine - b * sine, a * sine + b * cosine], dim=-1).flatten(3).type_as(x)


def rotate_strided(x, cosine, sine):
    """Strided slices; each angle is repeated."""
    turned = torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2)
    return x * cosine.repeat_interleave(2, -1)[None, :, None, :] + turned * sine.repeat_interleave(2, -1)[None, :, None, :]


def rotate_complex(x, cosine, sine):
    """Complex numbers, as Llama's first code has it."""
    turned = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2)) * torch.complex(cosine, sine)[None, :, None, :]
    return torch.view_as_real(turned).flatten(3).type_as(x)


def rotate_half_partial(x, cosine, sine):
    """lit-style: the first four of each head's dimensions turn, as two halves; the rest stays."""
    n = 4
    first, rest = x[..., :n], x[..., n:]
    cosine, sine = (torch.cat((t[:, : n // 2],) * 2, -1)[None, :, None, :] for t in (cosine, sine))
    turned = torch.cat((-first[..., n // 2 :], first[..., : n // 2]), dim=-1)
    return torch.cat((first * cosine + turned * sine, rest), dim=-1)


class Llama(nn.Module):
    """RMSNorm, rotary positions of some form, grouped queries by expand, SwiGLU."""

    class Block(nn.Module):
        def __init__(self, rotate):
            super().__init__()
            d = WIDTH // HEADS
            self.rotate, self.d = rotate, d
            self.attention_norm, self.ffn_norm = WeightNorm(WIDTH), WeightNorm(WIDTH)
            self.wq, self.wk, self.wv, self.wo = (nn.Linear(WIDTH, n, bias=False) for n in (WIDTH, 2 * d, 2 * d, WIDTH))
            self.w1, self.w2, self.w3 = nn.Linear(WIDTH, 68, bias=False), nn.Linear(68, WIDTH, bias=False), nn.Linear(WIDTH, 68, bias=False)

        def forward(self, x, cosine, sine):
            b, s, w = x.shape
            h = self.attention_norm(x)
            q, k, v = (f(h).view(b, s, -1, self.d) for f in (self.wq, self.wk, self.wv))
            q, k = self.rotate(q, cosine, sine), self.rotate(k, cosine, sine)
            k, v = (t[:, :, :, None, :].expand(b, s, 2, HEADS // 2, self.d).reshape(b, s, HEADS, self.d) for t in (k, v))
            y = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True)
            x = x + self.wo(join_heads(y))
            h = self.ffn_norm(x)
            return x + self.w2(F.silu(self.w1(h)) * self.w3(h))

    def __init__(self, rotate):
        super().__init__()
        self.tok_embeddings = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList([self.Block(rotate) for _ in range(LAYERS)])
        self.norm, self.output = WeightNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.register_buffer("freqs_cos", angles(LENGTH, WIDTH // HEADS).cos(), persistent=False)
        self.register_buffer("freqs_sin", angles(LENGTH, WIDTH // HEADS).sin(), persistent=False)

    def forward(self, tokens):
        x, s = self.tok_embeddings(tokens), tokens.shape[1]
        for layer in self.layers:
            x = layer(x, self.freqs_cos[:s], self.freqs_sin[:s])
        return self.output(self.norm(x))


class LitGPT(nn.Module):
    """q|k|v in one projection, interleaved per group; GELU of a gate|up in one projection; parallel residual with one shared norm."""

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.groups, self.d = 2, WIDTH // HEADS
            self.norm_1 = nn.LayerNorm(WIDTH)
            self.attn = nn.Linear(WIDTH, (HEADS + 2 * self.groups) * self.d)
            self.proj, self.fc, self.out = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2 * 52), nn.Linear(52, WIDTH)

        def forward(self, x, cosine, sine):
            b, s, w = x.shape
            h, per = self.norm_1(x), HEADS // self.groups
            qkv = self.attn(h).view(b, s, self.groups, per + 2, self.d).permute(0, 2, 3, 1, 4)
            q, k, v = qkv.split((per, 1, 1), dim=2)
            k, v = k.expand(b, self.groups, per, s, self.d), v.expand(b, self.groups, per, s, self.d)
            q, k, v = (t.reshape(b, HEADS, s, self.d) for t in (q, k, v))
            q, k = (rotate_half_partial(t.transpose(1, 2), cosine, sine).transpose(1, 2) for t in (q, k))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.4)
            gate, up = self.fc(h).chunk(2, dim=-1)
            return x + self.proj(join_heads(y)) + self.out(F.gelu(gate, approximate="tanh") * up)

    def __init__(self):
        super().__init__()
        self.wte, self.h = nn.Embedding(VOCABULARY + 9, WIDTH), nn.ModuleList([self.Block() for _ in range(LAYERS)])
        self.ln_f, self.lm_head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY + 9)
        self.register_buffer("cos", angles(LENGTH, WIDTH // HEADS).cos(), persistent=False)
        self.register_buffer("sin", angles(LENGTH, WIDTH // HEADS).sin(), persistent=False)

    def forward(self, ids):
        x, s = self.wte(ids), ids.shape[1]
        for block in self.h:
            x = block(x, self.cos[:s], self.sin[:s])
        return self.lm_head(self.ln_f(x))


class MultiheadAttentionModel(nn.Module):
    """nn.MultiheadAttention with a mask that each call makes anew; norm before or after the sub-layer."""

    class Block(nn.Module):
        def __init__(self, before):
            super().__init__()
            self.before = before
            self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
            self.one, self.two = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.feed = nn.Sequential(nn.Linear(WIDTH, 90), nn.ReLU(), nn.Linear(90, WIDTH))

        def forward(self, x, mask):
            h = self.one(x) if self.before else x
            h = x + self.attention(h, h, h, attn_mask=mask, need_weights=False)[0]
            if self.before:
                return h + self.feed(self.two(h))
            h = self.one(h)
            return self.two(h + self.feed(h))

    def __init__(self, before):
        super().__init__()
        self.embed, self.layers = nn.Embedding(VOCABULARY, WIDTH), nn.ModuleList([self.Block(before) for _ in range(LAYERS)])
        self.head = nn.Linear(WIDTH, VOCABULARY)
        place = angles(LENGTH, WIDTH)
        self.register_buffer("pe", torch.stack((place.sin(), place.cos()), -1).flatten(1))

    def forward(self, ids):
        s = ids.shape[1]
        x = self.embed(ids) * math.sqrt(WIDTH) + self.pe[:s]
        mask = torch.triu(torch.full((s, s), float("-inf")), diagonal=1)
        for layer in self.layers:
            x = layer(x, mask)
        return self.head(x)


class TransformerEncoderModel(nn.Module):
    """nn.TransformerEncoder with a causal mask: the decoder of many a course."""

    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 90, dropout=0.1, activation="gelu", batch_first=True, norm_first=True)
        self.embed, self.place = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.encoder = nn.TransformerEncoder(layer, LAYERS, norm=nn.LayerNorm(WIDTH), enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, VOCABULARY)
        for p in self.parameters():  # its layers begin as copies of one another
            if p.ndim > 1:
                nn.init.normal_(p, std=0.1)

    def forward(self, ids):
        mask = nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
        x = self.embed(ids) + self.place(torch.arange(ids.shape[1]))
        return self.head(self.encoder(x, mask=mask, is_causal=True))


class Alibi(nn.Module):
    """ALiBi and attention by einsum; norms written out; squared ReLU."""

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = HandLayerNorm(WIDTH), UnitNorm(WIDTH)
            self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH)
            self.up, self.down = nn.Linear(WIDTH, 77), nn.Linear(77, WIDTH)

        def forward(self, x, bias):
            q, k, v = (split_heads(t, HEADS) for t in self.qkv(self.one(x)).chunk(3, -1))
            a = (torch.einsum("bhid,bhjd->bhij", q, k) / math.sqrt(WIDTH // HEADS) + bias).softmax(-1)
            x = x + self.out(join_heads(torch.einsum("bhij,bhjd->bhid", a, v)))
            return x + self.down(F.relu(self.up(self.two(x))).square())

    def __init__(self):
        super().__init__()
        self.embed, self.layers = nn.Embedding(VOCABULARY, WIDTH), nn.ModuleList([self.Block() for _ in range(LAYERS)])
        self.norm = nn.LayerNorm(WIDTH, elementwise_affine=False)
        self.register_buffer("slopes", 2.0 ** (-8.0 * torch.arange(1, HEADS + 1) / HEADS))

    def forward(self, ids):
        s = ids.shape[1]
        place = torch.arange(s)
        distance = place[None, :] - place[:, None]
        bias = (self.slopes[:, None, None] * distance).masked_fill(distance > 0, -1e9)
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x, bias)
        return self.norm(x) @ self.embed.weight.T


class RelativeBias(nn.Module):
    """A learned bias per distance (as T5 has it), a head with a soft-cap, residuals with learned scalars, norms without weights."""

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
            self.up, self.down = nn.Linear(WIDTH, 66, bias=False), nn.Linear(66, WIDTH, bias=False)
            self.mix, self.scale = nn.Parameter(torch.tensor(0.6)), nn.Parameter(torch.ones(HEADS, 1, 1))

        def forward(self, x, first, bias):
            x = self.mix * x + (1 - self.mix) * first
            h = F.rms_norm(x, (WIDTH,))
            q, k, v = (split_heads(f(h), HEADS) for f in (self.q, self.k, self.v))
            q, k = F.rms_norm(q, (WIDTH // HEADS,)), F.rms_norm(k, (WIDTH // HEADS,))
            y = torch.softmax(self.scale * (q @ k.mT) * 0.2 + bias, -1) @ v
            x = x + self.o(join_heads(y))
            return x + self.down(F.relu(self.up(F.rms_norm(x, (WIDTH,)))).square())

    def __init__(self):
        super().__init__()
        self.embed, self.bias = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(9, HEADS)
        self.layers, self.head = nn.ModuleList([self.Block() for _ in range(LAYERS)]), nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, ids):
        place = torch.arange(ids.shape[1])
        distance = place[:, None] - place[None, :]
        bias = self.bias(distance.clamp(0, 8)).permute(2, 0, 1).masked_fill(distance < 0, float("-inf"))
        x = first = F.rms_norm(self.embed(ids), (WIDTH,))
        for layer in self.layers:
            x = layer(x, first, bias)
        return 15 * torch.tanh(self.head(F.rms_norm(x, (WIDTH,))) / 15)


class Mixture(nn.Module):
    """A mixture of experts, all experts on all tokens, weighted by a softmax over the best two; a short causal convolution per channel."""

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.two = nn.RMSNorm(WIDTH, eps=1e-6), nn.RMSNorm(WIDTH, eps=1e-6)
            self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
            self.convolution = nn.Conv1d(WIDTH, WIDTH, 3, groups=WIDTH, padding=2)
            self.gate = nn.Linear(WIDTH, 4, bias=False)
            self.up, self.down = nn.Parameter(0.15 * torch.randn(4, WIDTH, 30)), nn.Parameter(0.15 * torch.randn(4, 30, WIDTH))

        def forward(self, x):
            h = self.norm(x)
            h = h + self.convolution(h.transpose(1, 2))[..., : x.shape[1]].transpose(1, 2)
            q, k, v = (split_heads(t, HEADS) for t in self.qkv(h).chunk(3, -1))
            x = x + self.out(join_heads(F.scaled_dot_product_attention(q, k, v, is_causal=True)))
            h = self.two(x)
            best, which = self.gate(h).topk(2, dim=-1)
            weight = torch.zeros(*h.shape[:-1], 4).scatter(-1, which, best.softmax(-1))
            y = torch.einsum("bsef,efw->bsew", F.mish(torch.einsum("bsw,ewf->bsef", h, self.up)), self.down)
            return x + (weight[..., None] * y).sum(-2)

    def __init__(self):
        super().__init__()
        self.embed, self.place = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH + 2, WIDTH)
        self.layers, self.norm = nn.ModuleList([self.Block() for _ in range(LAYERS)]), nn.RMSNorm(WIDTH, eps=1e-6)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, ids):
        x = self.embed(ids) + self.place(torch.cumsum(torch.ones_like(ids), 1) + 1)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


MODULES = {
    "nanogpt": NanoGPT,
    "nanogpt-bias": lambda: NanoGPT(bias=True, tie=False),
    "mingpt": MinGPT,
    "llama2c": lambda: Llama(rotate_pairs),
    "llama-strided": lambda: Llama(rotate_strided),
    "llama-complex": lambda: Llama(rotate_complex),
    "litgpt": LitGPT,
    "mha-before": lambda: MultiheadAttentionModel(True),
    "mha-after": lambda: MultiheadAttentionModel(False),
    "encoder": TransformerEncoderModel,
    "alibi-einsum": Alibi,
    "relative-bias": RelativeBias,
    "mixture": Mixture,
}
