"""More decoders as research code has them: how they mix tokens, streams and heads is learned by parameters that reach the logits through functions of their
own, often of two parameters or of a parameter and positions. In the form of research_modules.py."""
import math

import torch
from torch import nn
from torch.nn import functional as F

import family_modules as base
from family_modules import WeightNorm, join_heads, split_heads
from research_modules import Decoder, causal, linear, projections, scalar, scattered, unit


def head_width():
    return base.WIDTH // base.HEADS


class Block(nn.Module):
    """Attention and a feed-forward part, each after a norm; what a subclass changes it overrides."""

    def __init__(self):
        super().__init__()
        self.one, self.two = WeightNorm(base.WIDTH), WeightNorm(base.WIDTH)
        self.q, self.k, self.v, self.o = projections()
        self.up, self.down = linear(base.WIDTH, 66), linear(66, base.WIDTH)

    def heads(self, x):
        return (split_heads(f(x), base.HEADS) for f in (self.q, self.k, self.v))

    def attend(self, x):
        return self.o(causal(*self.heads(x)))

    def feed(self, x):
        return self.down(F.silu(self.up(x)))

    def forward(self, x):
        x = x + self.attend(self.one(x))
        return x + self.feed(self.two(x))


class CosineAttention(Decoder):
    """Swin's second version: unit queries and keys, a temperature per head by its logarithm and below a limit, a norm's weight squared."""

    class Block(Block):
        def __init__(self):
            super().__init__()
            self.logit_scale, self.root = scattered(base.HEADS, 1, 1, around=1.5), scattered(base.WIDTH, around=1.0)

        def attend(self, x):
            q, k, v = self.heads(x)
            scale = torch.clamp(self.logit_scale, max=math.log(100)).exp()
            y = F.scaled_dot_product_attention(F.normalize(q, dim=-1) * scale, F.normalize(k, dim=-1), v, is_causal=True, scale=1.0)
            return self.o(join_heads(y))

        def feed(self, x):
            return super().feed(x) * self.root.square()


class Decays(Decoder):
    """RWKV's time mixing: each channel forgets by exp(-exp(w)) a token, and the token itself has a bonus."""

    class Block(Block):
        def __init__(self):
            super().__init__()
            self.decay, self.first = scattered(base.WIDTH, around=-1.0), scattered(base.WIDTH)

        def attend(self, x):
            key, value, gate = self.k(x), self.v(x), torch.sigmoid(self.q(x))
            length = x.shape[1]
            distance = (torch.arange(length)[:, None] - torch.arange(length)[None, :]).to(x.dtype)
            past = (distance - 1).clamp(min=0)[..., None] * -torch.exp(self.decay) + torch.where(distance == 0, 1.0, 0.0)[..., None] * self.first
            weights = torch.where(distance[..., None] >= 0, torch.exp(past), 0.0)[None] * torch.exp(key.clamp(max=8))[:, None]
            return self.o(gate * (weights * value[:, None]).sum(2) / weights.sum(2))


class LearnedSlopes(Decoder):
    """ALiBi whose slopes are learned, softplus of a parameter; a norm's weight is 1 + w, and each branch twice a sigmoid."""

    class Block(Block):
        def __init__(self):
            super().__init__()
            self.slope, self.gate, self.extra = scattered(base.HEADS), scattered(base.WIDTH), scattered(base.WIDTH)

        def attend(self, x):
            q, k, v = self.heads(x)
            length = x.shape[1]
            distance = (torch.arange(length)[:, None] - torch.arange(length)[None, :]).to(x.dtype)
            bias = -F.softplus(self.slope)[:, None, None] * distance + torch.full((length, length), float("-inf")).triu(1)
            scores = q @ k.transpose(-2, -1) / math.sqrt(head_width()) + bias
            return self.o(join_heads(torch.softmax(scores, -1) @ v)) * (2 * torch.sigmoid(self.gate))

        def feed(self, x):
            return super().feed(x * (1 + self.extra))


class TalkingHeads(Decoder):
    """x-transformers: heads talk before and after the softmax, one scale per head, a learned null key and value."""

    class Block(Block):
        def __init__(self):
            super().__init__()
            self.before, self.after = (nn.Parameter(torch.eye(base.HEADS) + 0.1 * torch.randn(base.HEADS, base.HEADS)) for _ in range(2))
            self.null_k, self.null_v = scattered(base.HEADS, head_width()), scattered(base.HEADS, head_width())
            self.head_scale = scattered(1, base.HEADS, 1, 1, around=1.0)

        def attend(self, x):
            q, k, v = self.heads(x)
            null = (t[None, :, None].expand(x.shape[0], -1, 1, -1) for t in (self.null_k, self.null_v))
            k, v = (torch.cat((n, t), dim=2) for n, t in zip(null, (k, v)))
            scores = torch.einsum("bhid,bhjd,gh->bgij", q, k, self.before) / math.sqrt(head_width())
            hidden = torch.ones(x.shape[1], x.shape[1] + 1, dtype=torch.bool).triu(2)
            weights = torch.einsum("bhij,gh->bgij", torch.softmax(scores.masked_fill(hidden, float("-inf")), -1), self.after)
            return self.o(join_heads(weights @ v * self.head_scale))


class GatedAttention(Decoder):
    """A gate on what attention gives, one sigmoid per head from the tokens and one per channel that is learned; norms of queries and keys with weights."""

    class Block(Block):
        def __init__(self):
            super().__init__()
            self.open, self.norm_q, self.norm_k = linear(base.WIDTH, base.HEADS, bias=True), WeightNorm(head_width()), WeightNorm(head_width())
            self.mix = scattered(base.WIDTH)

        def attend(self, x):
            q, k, v = self.heads(x)
            y = F.scaled_dot_product_attention(self.norm_q(q), self.norm_k(k), v, is_causal=True) * torch.sigmoid(self.open(x)).transpose(1, 2)[..., None]
            mix = torch.sigmoid(self.mix)
            return mix * self.o(join_heads(y)) + (1 - mix) * x


class HyperConnections(Decoder):
    """Two streams of residuals, mixed by a learned matrix whose rows are softmaxes, written to by tanh of a vector."""

    class Block(Block):
        def __init__(self):
            super().__init__()
            self.mix, self.read, self.write = scattered(2, 2), scattered(2), scattered(2, around=0.5)

        def forward(self, streams):
            x = torch.einsum("n,nbsd->bsd", torch.softmax(self.read, 0), streams)
            y = super().forward(x) - x
            return torch.einsum("mn,nbsd->mbsd", torch.softmax(self.mix, -1), streams) + torch.tanh(self.write)[:, None, None, None] * y

    def forward(self, ids):
        streams = torch.stack((self.embed(ids), 0.5 * self.embed(ids)))
        for layer in self.layers:
            streams = layer(streams)
        return self.head(self.norm(streams.sum(0)))


class LowRankHead(Decoder):
    """A head through the transpose of the embedding and a narrow pair of matrices, a scalar norm's gain, a logit scale by its logarithm."""

    Block = Block

    def __init__(self):
        super().__init__()
        self.head = self.norm = None
        self.narrow, self.wide = linear(base.WIDTH, 9), linear(9, base.WIDTH)
        self.gain, self.log_scale = scalar(3.0), scalar(0.3)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        x = self.gain * F.normalize(x, dim=-1)
        return (self.wide(self.narrow(x)) + x) @ self.embed.weight.t() * self.log_scale.exp()


class Reparametrised(Decoder):
    """Matrices that are functions of parameters: a low-rank part beside a frozen one, g * v / |v| by hand, a mean that is taken out, a scale by exp."""

    class Block(Block):
        def __init__(self):
            super().__init__()
            self.a, self.b = scattered(7, base.WIDTH), scattered(base.WIDTH, 7)
            self.g, self.log = scattered(66, 1, around=1.0), scattered(base.WIDTH)

        def attend(self, x):
            weight = self.o.weight + self.b @ self.a * 0.5
            return F.linear(causal(*self.heads(x)), weight)

        def feed(self, x):
            up = self.g * self.up.weight / self.up.weight.norm(dim=1, keepdim=True)
            down = (self.down.weight - self.down.weight.mean(dim=1, keepdim=True)) * self.log.exp()[:, None]
            return F.linear(F.gelu(F.linear(x, up)), down)


class DepthScales(Decoder):
    """One list of scalars for all layers, held by the model: softmax over layers, elements that are taken out, sigmoids that share a total."""

    Block = Block

    def __init__(self):
        super().__init__()
        self.depth, self.skip, self.total = scattered(base.LAYERS), scattered(base.LAYERS, around=0.5), scattered(3)

    def forward(self, ids):
        first = x = self.embed(ids)
        depth, skip = torch.softmax(self.depth, 0), torch.sigmoid(self.skip)
        for i, layer in enumerate(self.layers):
            x = skip[i] * layer(x) + (1 - skip[i]) * first + depth[i] * x
        a, b, c = F.softplus(self.total).unbind()
        return self.head(self.norm(a * x + b * first)) * c


class Retention(Decoder):
    """RetNet: decays per head that are learned by a sigmoid, a norm of each head without weights, a swish gate."""

    class Block(Block):
        def __init__(self):
            super().__init__()
            self.gate, self.rate = linear(base.WIDTH, base.WIDTH), scattered(base.HEADS, around=2.0)

        def attend(self, x):
            q, k, v = self.heads(x)
            length = x.shape[1]
            distance = (torch.arange(length)[:, None] - torch.arange(length)[None, :]).to(x.dtype)
            decay = torch.exp(F.logsigmoid(self.rate)[:, None, None] * distance.clamp(min=0)) * (distance >= 0)
            return self.o(F.silu(self.gate(x)) * join_heads(unit(q @ k.transpose(-2, -1) * decay / math.sqrt(head_width()) @ v)))


class Dictionaries(Decoder):
    """ModuleDicts with the same keys, a norm and a matrix that each block calls twice: TorchScript numbers their names alike."""

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.twice = WeightNorm(base.WIDTH), linear(base.WIDTH, base.WIDTH)
            self.attention = nn.ModuleDict({name: linear(base.WIDTH, base.WIDTH, True) for name in "abcd"})
            self.feed = nn.ModuleDict({name: linear(base.WIDTH, base.WIDTH, True) for name in "ab"})

        def forward(self, x):
            h = self.norm(x)
            x = x + self.attention["d"](causal(*(split_heads(self.attention[name](h), base.HEADS) for name in "abc")))
            x = x + self.twice(F.silu(self.twice(x)))
            return x + self.feed["b"](F.silu(self.feed["a"](self.norm(x))))


class Groups(Decoder):
    """RetNet's norm of the heads of each token, GroupNorm with weights and without, and positions as sines that are stored and not trained."""

    stores_buffers = True

    class Block(Block):
        def __init__(self):
            super().__init__()
            self.group, self.plain = nn.GroupNorm(base.HEADS, base.WIDTH), nn.GroupNorm(base.HEADS // 2, base.WIDTH, affine=False)

        def attend(self, x):
            y = causal(*self.heads(x))
            return self.o(self.group(y.flatten(0, 1)).view_as(y))

        def feed(self, x):
            return super().feed(self.plain(x.flatten(0, 1)).view_as(x))

    def __init__(self):
        super().__init__()
        angles = torch.arange(base.LENGTH)[:, None] * torch.exp(-math.log(1e4) * torch.arange(0, base.WIDTH, 2) / base.WIDTH)
        self.register_buffer("waves", torch.stack((angles.sin(), angles.cos()), -1).flatten(1))

    def forward(self, ids):
        x = self.embed(ids) + self.waves[: ids.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


MODULES = {
    "dictionaries": Dictionaries,
    "groups": Groups,
    "cosine-attention": CosineAttention,
    "decays": Decays,
    "learned-slopes": LearnedSlopes,
    "talking-heads": TalkingHeads,
    "gated-attention": GatedAttention,
    "hyper-connections": HyperConnections,
    "low-rank-head": LowRankHead,
    "reparametrised": Reparametrised,
    "depth-scales": DepthScales,
    "retention": Retention,
}
