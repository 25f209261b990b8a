"""Decoders as research code has them: parameters that reach the logits through a function of their own, and blocks in new places. Of the same sizes and
in the same form as those of family_modules.py."""
import math

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm

import family_modules as base
from family_modules import PlainLayerNorm, WeightNorm, join_heads, split_heads


def linear(inputs, outputs, bias=False):
    return nn.Linear(inputs, outputs, bias=bias)


def projections(count=4):
    return (linear(base.WIDTH, base.WIDTH) for _ in range(count))


def causal(q, k, v):
    return join_heads(F.scaled_dot_product_attention(q, k, v, is_causal=True))


def rotate_halves(x, cosine, sine):
    first, second = x.chunk(2, dim=-1)
    return x * cosine + torch.cat((-second, first), dim=-1) * sine


def unit(x):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)


def scalar(value):
    return nn.Parameter(torch.tensor(float(value)))


def scattered(*shape, around=0.0, by=0.3):
    return nn.Parameter(around + by * torch.randn(shape))


class Decoder(nn.Module):
    """Embedding, blocks, norm, head; a subclass says what a block is."""

    tied = False

    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(base.VOCABULARY, base.WIDTH), linear(base.WIDTH, base.VOCABULARY)
        self.layers, self.norm = nn.ModuleList([self.Block() for _ in range(base.LAYERS)]), WeightNorm(base.WIDTH)
        if self.tied:
            self.head.weight = self.embed.weight

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


class LayerScale(Decoder):
    """CaiT's scale of each branch, ReZero's scalar that begins at 0, a residual scale that begins at 1."""

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = WeightNorm(base.WIDTH), WeightNorm(base.WIDTH)
            self.q, self.k, self.v, self.o = projections()
            self.up, self.down = linear(base.WIDTH, 66), linear(66, base.WIDTH)
            self.scale = nn.Parameter(1e-1 * torch.ones(base.WIDTH))
            self.alpha, self.residual = scalar(0.0), scalar(1.0)

        def forward(self, x):
            h = self.one(x)
            x = self.residual * x + self.scale * self.o(causal(*(split_heads(f(h), base.HEADS) for f in (self.q, self.k, self.v))))
            return x + self.alpha * self.down(F.silu(self.up(self.two(x))))


class Gates(Decoder):
    """Gates by sigmoid, tanh and exp of a parameter, a softmax over what layers gave, a temperature by its logarithm."""

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.two = WeightNorm(base.WIDTH), WeightNorm(base.WIDTH)
            self.q, self.k, self.v, self.o = projections()
            self.up, self.down = linear(base.WIDTH, 66), linear(66, base.WIDTH)
            self.heads, self.gate = scattered(base.HEADS, 1, 1), scattered(base.WIDTH)
            self.opening, self.logarithm = scattered(), scattered(base.HEADS, 1, 1)

        def forward(self, x):
            h = self.norm(x)
            q, k, v = (split_heads(f(h), base.HEADS) for f in (self.q, self.k, self.v))
            y = causal(q * self.logarithm.exp(), k, v * torch.sigmoid(self.heads))
            x = x + torch.tanh(self.opening) * self.o(y)
            return x + F.softplus(self.gate) * self.down(F.silu(self.up(self.two(x))))

    def __init__(self):
        super().__init__()
        self.mixture, self.temperature = nn.Parameter(torch.randn(base.LAYERS + 1)), scalar(0.7)

    def forward(self, ids):
        states = [self.embed(ids)]
        for layer in self.layers:
            states.append(layer(states[-1]))
        weights = torch.softmax(self.mixture, 0)
        x = sum(w * s for w, s in zip(weights, states))
        return self.head(self.norm(x)) * self.temperature.exp()


class Differential(Decoder):
    """Differential attention: the difference of two maps, by a number that four vectors make."""

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.two = WeightNorm(base.WIDTH), WeightNorm(base.WIDTH)
            self.q, self.k, self.v, self.o = projections()
            self.up, self.gate, self.down = linear(base.WIDTH, 30), linear(base.WIDTH, 30), linear(30, base.WIDTH)
            half = base.WIDTH // base.HEADS // 2
            self.lambda_q1, self.lambda_k1, self.lambda_q2, self.lambda_k2 = (scattered(half) for _ in range(4))

        def forward(self, x):
            h = self.norm(x)
            q, k, v = (split_heads(f(h), base.HEADS) for f in (self.q, self.k, self.v))
            hidden = torch.full((x.shape[1], x.shape[1]), float("-inf")).triu(1)
            half = q.shape[-1] // 2
            first, second = (torch.softmax(a @ b.transpose(-2, -1) / math.sqrt(half) + hidden, -1) for a, b in zip(q.split(half, -1), k.split(half, -1)))
            amount = torch.exp((self.lambda_q1 * self.lambda_k1).sum()) - torch.exp((self.lambda_q2 * self.lambda_k2).sum()) + 0.2
            x = x + self.o(join_heads(0.8 * unit((first - amount * second) @ v)))
            h = self.two(x)
            return x + self.down(F.silu(self.gate(h)) * self.up(h))


class TokenShift(Decoder):
    """RWKV's mix of each token with the one before it, and squared ReLU behind a gate."""

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = nn.LayerNorm(base.WIDTH), nn.LayerNorm(base.WIDTH)
            self.q, self.k, self.v, self.o = projections()
            self.receive, self.up, self.down = linear(base.WIDTH, base.WIDTH), linear(base.WIDTH, 66), linear(66, base.WIDTH)
            self.mix_k, self.mix_r = scattered(1, 1, base.WIDTH, around=0.5), scattered(1, 1, base.WIDTH, around=0.5)

        def forward(self, x):
            h = self.one(x)
            x = x + self.o(causal(*(split_heads(f(h), base.HEADS) for f in (self.q, self.k, self.v))))
            h = self.two(x)
            before = F.pad(h, (0, 0, 1, -1))
            key, gate = h * self.mix_k + before * (1 - self.mix_k), h * self.mix_r + before * (1 - self.mix_r)
            return x + torch.sigmoid(self.receive(gate)) * self.down(F.relu(self.up(key)).square())


class Speedrun(nn.Module):
    """The record runs' GPT: residuals mixed with the embedding by a vector's elements, value embeddings, squared ReLU, norms without weights, a soft-cap."""

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.c_q, self.c_k, self.c_v, self.c_proj = projections()
            self.up, self.down = linear(base.WIDTH, 66), linear(66, base.WIDTH)
            self.lambdas, self.values = nn.Parameter(torch.tensor([1.0, 0.0])), nn.Parameter(torch.tensor([0.5, 0.5]))

        def forward(self, x, first, more, tables):
            x = self.lambdas[0] * x + self.lambdas[1] * first
            h = unit(x)
            q, k, v = (split_heads(f(h), base.HEADS) for f in (self.c_q, self.c_k, self.c_v))
            v = self.values[0] * v + self.values[1] * split_heads(more, base.HEADS)
            q, k = (rotate_halves(unit(t), *tables) for t in (q, k))
            x = x + self.c_proj(causal(q, k, v))
            return x + self.down(F.relu(self.up(unit(x))).square())

    def __init__(self):
        super().__init__()
        self.embed, self.value_embed = nn.Embedding(base.VOCABULARY, base.WIDTH), nn.Embedding(base.VOCABULARY, base.WIDTH)
        self.blocks, self.lm_head = nn.ModuleList([self.Block() for _ in range(base.LAYERS)]), linear(base.WIDTH, base.VOCABULARY)
        self.skip_weights = nn.Parameter(torch.ones(1))

    def forward(self, ids):
        tables = base.angles(ids.shape[1], base.WIDTH // base.HEADS)
        tables = torch.cat([tables, tables], -1)
        x = first = unit(self.embed(ids))
        more = self.value_embed(ids)
        kept = None
        for i, block in enumerate(self.blocks):
            if i == base.LAYERS - 1 and kept is not None:
                x = x + self.skip_weights[0] * kept
            x = block(x, first, more, (tables.cos(), tables.sin()))
            kept = x if kept is None else kept
        return 15 * torch.sigmoid(self.lm_head(unit(x)) / 7.5)


class T5Bias(Decoder):
    """T5's buckets of distances that grow with the logarithm, attention without a scale, GELU behind a gate, a tied head that is scaled."""

    tied = True

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = WeightNorm(base.WIDTH, 1e-6), WeightNorm(base.WIDTH, 1e-6)
            self.q, self.k, self.v, self.o = projections()
            self.wi_0, self.wi_1, self.wo = linear(base.WIDTH, 66), linear(base.WIDTH, 66), linear(66, base.WIDTH)

        def forward(self, x, bias):
            h = self.one(x)
            q, k, v = (split_heads(f(h), base.HEADS) for f in (self.q, self.k, self.v))
            x = x + self.o(join_heads(torch.softmax((q @ k.transpose(-2, -1) + bias).float(), dim=-1).type_as(q) @ v))
            h = self.two(x)
            return x + self.wo(F.gelu(self.wi_0(h), approximate="tanh") * self.wi_1(h))

    def __init__(self):
        super().__init__()
        self.relative = nn.Embedding(16, base.HEADS)

    def forward(self, ids):
        place = torch.arange(ids.shape[1])
        distance = (place[:, None] - place[None, :]).clamp(min=0)
        large = 8 + (torch.log(distance.float().clamp(min=1) / 8) / math.log(32 / 8) * 8).to(torch.long)
        bucket = torch.where(distance < 8, distance, large.clamp(max=15))
        bias = self.relative(bucket).permute(2, 0, 1)[None]
        bias = bias + torch.where(place[:, None] >= place[None, :], 0.0, torch.finfo(torch.float32).min)
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x, bias)
        return self.head(self.norm(x) * base.WIDTH**-0.5)


class Shared(Decoder):
    """ALBERT's way to be small: a narrow embedding, one block that runs three times, a head over the narrow width."""

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention, self.norm, self.full = linear(base.WIDTH, 3 * base.WIDTH, True), nn.LayerNorm(base.WIDTH), nn.LayerNorm(base.WIDTH)
            self.dense, self.up, self.down = linear(base.WIDTH, base.WIDTH, True), linear(base.WIDTH, 66, True), linear(66, base.WIDTH, True)

        def forward(self, x):
            x = self.norm(x + self.dense(causal(*(split_heads(t, base.HEADS) for t in self.attention(x).chunk(3, -1)))))
            return self.full(x + self.down(F.gelu(self.up(x))))

    def __init__(self):
        super().__init__()
        narrow = 16
        self.embed, self.place = nn.Embedding(base.VOCABULARY, narrow), nn.Embedding(base.LENGTH, narrow)
        self.widen, self.narrow = linear(narrow, base.WIDTH, True), linear(base.WIDTH, narrow, True)
        self.layers, self.head = nn.ModuleList([self.Block()]), linear(narrow, base.VOCABULARY, True)
        self.head.weight = self.embed.weight
        self.norm = nn.LayerNorm(narrow)
        nn.init.normal_(self.embed.weight, std=0.2)  # logits of a size that 16 bits hold

    def forward(self, ids):
        x = self.widen(self.embed(ids) + self.place(torch.arange(ids.shape[1])))
        for _ in range(3):
            x = self.layers[0](x)
        return self.head(self.norm(F.gelu(self.narrow(x))))


class ConvolutionMixer(Decoder):
    """Tokens are mixed by causal convolutions behind gates, one per channel and one over groups; nothing attends."""

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = WeightNorm(base.WIDTH), WeightNorm(base.WIDTH)
            self.enter, self.leave = linear(base.WIDTH, 2 * base.WIDTH), linear(base.WIDTH, base.WIDTH)
            self.convolution = nn.Conv1d(base.WIDTH, base.WIDTH, 4, groups=base.WIDTH, padding=3)
            self.grouped = nn.Conv1d(base.WIDTH, base.WIDTH, 3, groups=4, bias=False)
            self.up, self.down = linear(base.WIDTH, 60), linear(30, base.WIDTH)

        def forward(self, x):
            y, gate = self.enter(self.one(x)).chunk(2, dim=-1)
            y = F.silu(self.convolution(y.transpose(1, 2))[..., : x.shape[1]])
            y = self.grouped(F.pad(y, (2, 0))).transpose(1, 2)
            x = x + self.leave(y * torch.sigmoid(gate))
            return x + self.down(F.glu(self.up(self.two(x)), dim=-1))


class NormedWeights(Decoder):
    """torch's weight norm on the projections, and a head of unit rows times a learned scale."""

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.two = PlainLayerNorm(base.WIDTH, False), PlainLayerNorm(base.WIDTH, False)
            self.qkv, self.o = weight_norm(linear(base.WIDTH, 3 * base.WIDTH)), weight_norm(linear(base.WIDTH, base.WIDTH, True))
            self.up, self.down = linear(base.WIDTH, 66), linear(66, base.WIDTH)

        def forward(self, x):
            x = x + self.o(causal(*(split_heads(t, base.HEADS) for t in self.qkv(self.norm(x)).chunk(3, -1))))
            return x + self.down(F.gelu(self.up(self.two(x))))

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(3 + 0.1 * torch.randn(base.VOCABULARY))

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.scale * (F.normalize(self.norm(x), dim=-1) @ F.normalize(self.head.weight, dim=-1).T)


class Titan(nn.Module):
    """torchtitan's Llama: layers in a dictionary, complex rotary numbers in a buffer, grouped keys repeated, feed-forward w1, w2, w3."""

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            width = base.WIDTH // base.HEADS
            self.wq, self.wk, self.wv = linear(base.WIDTH, base.WIDTH), linear(base.WIDTH, 2 * width), linear(base.WIDTH, 2 * width)
            self.wo = linear(base.WIDTH, base.WIDTH)

        def forward(self, x, turns):
            b, s, _ = x.shape
            q, k, v = (f(x).view(b, s, -1, base.WIDTH // base.HEADS) for f in (self.wq, self.wk, self.wv))
            q, k = (torch.view_as_real(torch.view_as_complex(t.float().reshape(*t.shape[:-1], -1, 2)) * turns[:s].view(1, s, 1, -1)).flatten(3).type_as(t) for t in (q, k))
            k, v = (t[:, :, :, None, :].expand(b, s, 2, base.HEADS // 2, t.shape[-1]).reshape(b, s, base.HEADS, -1) for t in (k, v))
            return self.wo(causal(*(t.transpose(1, 2) for t in (q, k, v))))

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention, self.attention_norm, self.ffn_norm = Titan.Attention(), nn.RMSNorm(base.WIDTH, eps=1e-5), nn.RMSNorm(base.WIDTH, eps=1e-5)
            self.feed_forward = nn.ModuleDict(dict(w1=linear(base.WIDTH, 66), w2=linear(66, base.WIDTH), w3=linear(base.WIDTH, 66)))

        def forward(self, x, turns):
            h = x + self.attention(self.attention_norm(x), turns)
            y, f = self.ffn_norm(h), self.feed_forward
            return h + f["w2"](F.silu(f["w1"](y)) * f["w3"](y))

    def __init__(self):
        super().__init__()
        self.tok_embeddings, self.output = nn.Embedding(base.VOCABULARY, base.WIDTH), linear(base.WIDTH, base.VOCABULARY)
        self.layers = nn.ModuleDict({str(i): self.Block() for i in range(base.LAYERS)})
        self.norm = nn.RMSNorm(base.WIDTH, eps=1e-5)
        turns = base.angles(base.LENGTH, base.WIDTH // base.HEADS)
        self.register_buffer("freqs_cis", torch.polar(torch.ones_like(turns), turns), persistent=False)

    def forward(self, tokens):
        h = self.tok_embeddings(tokens)
        for layer in self.layers.values():
            h = layer(h, self.freqs_cis)
        return self.output(self.norm(h))


class LoopedExperts(Decoder):
    """Mixtral by a loop over its experts: each sees all tokens, and a mask says whose answer counts; x-transformers' norms around the sub-layer."""

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.pre, self.post, self.two = WeightNorm(base.WIDTH), WeightNorm(base.WIDTH), WeightNorm(base.WIDTH)
            self.q, self.k, self.v, self.o = projections()
            self.gate = linear(base.WIDTH, 4)
            self.experts = nn.ModuleList([nn.ModuleDict(dict(w1=linear(base.WIDTH, 30), w2=linear(30, base.WIDTH), w3=linear(base.WIDTH, 30))) for _ in range(4)])
            self.residual = scattered(base.WIDTH, around=1.0)

        def forward(self, x):
            h = self.pre(x)
            x = x * self.residual + self.post(self.o(causal(*(split_heads(f(h), base.HEADS) for f in (self.q, self.k, self.v)))))
            h = self.two(x)
            best, which = torch.topk(torch.softmax(self.gate(h), dim=-1, dtype=torch.float), 2, dim=-1)
            best = (best / best.sum(-1, keepdim=True)).to(x.dtype)
            y = torch.zeros_like(h)
            for i, e in enumerate(self.experts):
                y = y + (best * (which == i)).sum(-1, keepdim=True) * e["w2"](F.silu(e["w1"](h)) * e["w3"](h))
            return x + y


class ParallelPalm(Decoder):
    """PaLM as lucidrains writes it: one projection for queries, the one key, the one value and the feed-forward; a norm whose bias is a buffer; a tied head."""

    tied = True

    class GammaNorm(nn.Module):
        def __init__(self):
            super().__init__()
            self.gamma = nn.Parameter(torch.ones(base.WIDTH))
            self.register_buffer("beta", torch.zeros(base.WIDTH))

        def forward(self, x):
            return F.layer_norm(x, x.shape[-1:], self.gamma, self.beta)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            width = base.WIDTH // base.HEADS
            self.norm, self.parts = ParallelPalm.GammaNorm(), (base.WIDTH, width, width, 2 * 66)
            self.fused_attn_ff_proj = linear(base.WIDTH, sum(self.parts))
            self.attn_out, self.ff_out = linear(base.WIDTH, base.WIDTH), nn.Sequential(nn.SiLU(), linear(66, base.WIDTH))

        def forward(self, x):
            q, k, v, ff = self.fused_attn_ff_proj(self.norm(x)).split(self.parts, dim=-1)
            q = split_heads(q, base.HEADS) * q.shape[-1] ** -0.5 * math.sqrt(base.HEADS)
            scores = torch.einsum("bhid,bjd->bhij", q, k)
            hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
            scores = scores.masked_fill(hidden, -torch.finfo(scores.dtype).max)
            scores = scores - scores.amax(dim=-1, keepdim=True).detach()
            y = join_heads(torch.einsum("bhij,bjd->bhid", scores.softmax(dim=-1), v))
            left, right = ff.chunk(2, dim=-1)
            return x + self.attn_out(y) + self.ff_out[1](left * self.ff_out[0](right))


MODULES = {
    "layer-scale": LayerScale,
    "gates": Gates,
    "differential": Differential,
    "token-shift": TokenShift,
    "speedrun": Speedrun,
    "t5-bias": T5Bias,
    "shared": Shared,
    "convolution-mixer": ConvolutionMixer,
    "normed-weights": NormedWeights,
    "titan": Titan,
    "looped-experts": LoopedExperts,
    "palm": ParallelPalm,
}
