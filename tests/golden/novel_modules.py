"""Decoders of papers and repositories that transformers does not have: unit weights, patches of tokens, hashed n-grams, structured matrices, learned activations,
attention without a softmax. In the form of research_modules.py."""
import math

import torch
from torch import nn
from torch.nn import functional as F

import family_modules as base
from family_modules import WeightNorm, join_heads, split_heads
from mixing_modules import Block, head_width
from research_modules import Decoder, causal, linear, scalar, scattered


class UnitWeights(Decoder):
    """nGPT: states and matrices of unit length, steps towards what a block says by |alpha|, scales of queries, keys and logits that are stored divided by a constant."""

    class Block(Block):
        def __init__(self):
            super().__init__()
            self.alpha, self.beta = scattered(base.WIDTH, around=0.05, by=0.02), scattered(base.WIDTH, around=0.05, by=0.02)
            self.sqk = scattered(base.HEADS, 1, head_width(), around=0.125, by=0.02)

        def forward(self, x):
            rate = 0.05 * math.sqrt(base.WIDTH)
            q, k, v = (split_heads(F.linear(x, F.normalize(f.weight, dim=-1)), base.HEADS) for f in (self.q, self.k, self.v))
            scale = self.sqk * (1.0 / 0.125)
            y = F.scaled_dot_product_attention(scale * F.normalize(q, dim=-1), scale * F.normalize(k, dim=-1), v, is_causal=True, scale=math.sqrt(head_width()))
            y = F.normalize(F.linear(join_heads(y), F.normalize(self.o.weight, dim=0)), dim=-1)
            x = F.normalize(x + (self.alpha * rate).abs() * (y - x), dim=-1)
            y = F.normalize(self.down(F.silu(self.up(x))), dim=-1)
            return F.normalize(x + (self.beta * rate).abs() * (y - x), dim=-1)

    def __init__(self):
        super().__init__()
        self.norm = None
        self.sz = scattered(base.VOCABULARY, around=1.0, by=0.05)

    def forward(self, ids):
        x = F.normalize(self.embed(ids), dim=-1)
        for layer in self.layers:
            x = layer(x)
        return self.head(x) * (self.sz * math.sqrt(base.WIDTH))


class HashedBigrams(Decoder):
    """Embeddings of a token and of a hash of it and the one before; a smear of each state into the next by a gate that tokens open."""

    Block = Block

    def __init__(self):
        super().__init__()
        self.pairs, self.smear, self.amount = nn.Embedding(37, base.WIDTH), linear(12, 1), scalar(0.3)

    def forward(self, ids):
        before = F.pad(ids[:, :-1], (1, 0))
        x = self.embed(ids) + self.pairs((ids * 31 + before * 17) % 37)
        gate = self.amount * torch.sigmoid(self.smear(x[:, 1:, :12]))
        x = torch.cat([x[:, :1], x[:, 1:] + gate * x[:, :-1]], dim=1)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


class SharedWithAdapters(Decoder):
    """A relaxed recursive Transformer: one block for all depths, with a narrow pair of matrices of its own at each."""

    class Block(Block):
        def forward(self, x, a, b):
            h = self.one(x)
            q = self.q(h) + F.linear(F.linear(h, a), b) * 0.5
            x = x + self.o(causal(split_heads(q, base.HEADS), *(split_heads(f(h), base.HEADS) for f in (self.k, self.v))))
            return x + self.feed(self.two(x))

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([self.Block()])
        self.a = nn.ParameterList([scattered(5, base.WIDTH) for _ in range(3)])
        self.b = nn.Parameter(0.3 * torch.randn(3, base.WIDTH, 5))

    def forward(self, ids):
        x = self.embed(ids)
        for i in range(3):
            x = self.layers[0](x, self.a[i], self.b[i])
        return self.head(self.norm(x))


class StructuredMatrices(Decoder):
    """Monarch's product of two block-diagonal matrices with a permutation between, and a Kronecker product, in place of dense layers."""

    class Block(Block):
        def __init__(self):
            super().__init__()
            groups, part = 4, base.WIDTH // 4
            self.left, self.right = scattered(groups, part, part), scattered(part, groups, groups)
            self.outer, self.inner = scattered(groups, groups), scattered(part, part)

        def attend(self, x):
            y = super().attend(x)
            b, s, w = y.shape
            y = torch.einsum("bsgi,gio->bsgo", y.view(b, s, 4, w // 4), self.left)
            return torch.einsum("bspg,pgo->bspo", y.transpose(-1, -2), self.right).transpose(-1, -2).reshape(b, s, w)

        def feed(self, x):
            return super().feed(x) + F.linear(x, torch.kron(self.outer, self.inner))


class LearnedActivations(Decoder):
    """A polynomial, a rational function and a spline of ramps with learned coefficients for activations; a SwiGLU whose beta is learned."""

    class Block(Block):
        def __init__(self):
            super().__init__()
            self.coefficients, self.above, self.below = scattered(4), scattered(4), scattered(3)
            self.knots, self.slopes, self.beta, self.gate = scattered(5), scattered(5), scalar(1.2), linear(base.WIDTH, 66)

        def feed(self, x):
            y = 0.5 * self.up(x)
            polynomial = sum(c * y**i for i, c in enumerate(self.coefficients))
            rational = (self.above[0] + y * (self.above[1] + y * (self.above[2] + y * self.above[3]))) / (1 + (y * (self.below[0] + y * (self.below[1] + y * self.below[2]))).abs())
            ramps = (F.relu(y[..., None] - self.knots) * self.slopes).sum(-1)
            g = self.gate(x)
            return self.down(0.3 * polynomial + rational + ramps + g * torch.sigmoid(self.beta * g) * y)


class LinearAttention(Decoder):
    """Performer's order: a running sum of key and value products, features by elu(x) + 1; no position sees a later one."""

    class Block(Block):
        def attend(self, x):
            q, k, v = self.heads(x)
            q, k = F.elu(q) + 1, F.elu(k) + 1
            memory = torch.cumsum(torch.einsum("bhsd,bhse->bhsde", k, v), dim=2)
            y = torch.einsum("bhsd,bhsde->bhse", q, memory) / (torch.einsum("bhsd,bhsd->bhs", q, k.cumsum(2))[..., None] + 1e-6)
            return self.o(join_heads(y))


class AdaptiveEmbeddings(Decoder):
    """Baevski and Auli's: frequent tokens have wide rows, rare ones narrow rows and a projection; the head is tied to both."""

    Block = Block

    def __init__(self):
        super().__init__()
        self.head = None
        self.cut, narrow = 40, base.WIDTH // 3
        self.embed, self.rare, self.widen = nn.Embedding(self.cut, base.WIDTH), nn.Embedding(base.VOCABULARY - self.cut, narrow), linear(narrow, base.WIDTH)

    def forward(self, ids):
        frequent = self.embed(ids.clamp(max=self.cut - 1))
        rare = self.widen(self.rare((ids - self.cut).clamp(min=0)))
        x = torch.where((ids < self.cut)[..., None], frequent, rare)
        for layer in self.layers:
            x = layer(x)
        x = self.norm(x)
        return torch.cat([x @ self.embed.weight.T, (x @ self.widen.weight) @ self.rare.weight.T], dim=-1)


class SigmoidAttention(Decoder):
    """Attention by a sigmoid with a bias of -log(length), norms of queries and keys, learned offsets per head."""

    class Block(Block):
        def __init__(self):
            super().__init__()
            self.qn, self.kn, self.offset = WeightNorm(head_width()), WeightNorm(head_width()), scattered(base.HEADS, 1, 1)

        def attend(self, x):
            q, k, v = self.heads(x)
            scores = self.qn(q) @ self.kn(k).transpose(-2, -1) / math.sqrt(head_width()) + self.offset - math.log(x.shape[1])
            seen = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
            return self.o(join_heads(torch.sigmoid(scores.masked_fill(~seen, float("-inf"))) @ v))


class Canon(Decoder):
    """Short causal convolutions with residuals before attention and feed-forward, on q, k and v too; grouped keys by einsum in five dimensions."""

    class Block(Block):
        def __init__(self):
            super().__init__()
            self.a, self.b = (nn.Conv1d(base.WIDTH, base.WIDTH, 4, groups=base.WIDTH, bias=False) for _ in range(2))
            self.k, self.v = linear(base.WIDTH, base.WIDTH // 2), linear(base.WIDTH, base.WIDTH // 2)
            self.mix = nn.Conv1d(2 * base.WIDTH, 2 * base.WIDTH, 3, groups=2 * base.WIDTH)

        @staticmethod
        def past(convolution, x):
            return x + convolution(F.pad(x.transpose(1, 2), (convolution.kernel_size[0] - 1, 0))).transpose(1, 2)

        def forward(self, x):
            h = self.past(self.a, self.one(x))
            qkv = self.past(self.mix, torch.cat([f(h) for f in (self.q, self.k, self.v)], dim=-1))
            b, s, _ = x.shape
            q, k, v = qkv.split([base.WIDTH, base.WIDTH // 2, base.WIDTH // 2], dim=-1)
            q, k, v = q.view(b, s, base.HEADS // 2, 2, head_width()), k.view(b, s, base.HEADS // 2, head_width()), v.view(b, s, base.HEADS // 2, head_width())
            scores = torch.einsum("bqkgd,bskd->bkgqs", q, k) / math.sqrt(head_width())
            hidden = torch.full((s, s), torch.finfo(x.dtype).min).triu(1)
            y = torch.einsum("bkgqs,bskd->bqkgd", torch.softmax(scores + hidden, -1), v)
            x = x + self.o(y.reshape(b, s, base.WIDTH))
            return x + self.feed(self.past(self.b, self.two(x)))


class MixtureOfSoftmaxes(Decoder):
    """Logits are the logarithm of a mixture of three softmaxes; two further heads, for later tokens, are outputs that training leaves alone."""

    Block = Block

    def __init__(self):
        super().__init__()
        self.prior, self.latent = linear(base.WIDTH, 3), linear(base.WIDTH, 3 * base.WIDTH, True)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        x = self.norm(x)
        b, s, w = x.shape
        states = torch.tanh(self.latent(x)).view(b, s, 3, w)
        mixture = (torch.softmax(self.prior(x), -1)[..., None] * torch.softmax(self.head(states), -1)).sum(2)
        return torch.log(mixture + 1e-9)


class Patches(Decoder):
    """MegaByte: patches of four tokens are seen by a wide model, shifted by one patch, and each token by a narrow one within its patch."""

    class Block(Block):
        pass

    def __init__(self):
        super().__init__()
        self.local, self.widen, self.narrow = nn.ModuleList([self.Block()]), linear(4 * base.WIDTH, base.WIDTH), linear(base.WIDTH, 4 * base.WIDTH)
        self.start = scattered(1, 1, base.WIDTH)

    def forward(self, ids):
        b, s = ids.shape
        whole = F.pad(ids, (0, -s % 4))
        x = self.embed(whole)
        count = x.shape[1] // 4
        h = self.widen(x.view(b, count, 4 * base.WIDTH))
        h = torch.cat([self.start.expand(b, -1, -1), h[:, :-1]], dim=1)
        for layer in self.layers:
            h = layer(h)
        y = self.narrow(h).view(b * count, 4, base.WIDTH)
        within = torch.cat([torch.zeros_like(x.view(b * count, 4, base.WIDTH)[:, :1]), x.view(b * count, 4, base.WIDTH)[:, :-1]], dim=1)
        y = self.local[0](y + within)
        return self.head(self.norm(y.view(b, 4 * count, base.WIDTH)[:, :s]))


class MergedAdapters(Decoder):
    """An adapter that a model computes into its weights: W + 2 B A in every projection, whatever the tokens are; learned slopes for distances."""

    class Block(Block):
        def __init__(self):
            super().__init__()
            self.lora_a, self.lora_b = scattered(4, base.WIDTH), scattered(base.WIDTH, 4)
            self.slope, self.decay = scattered(base.HEADS), scattered(base.HEADS, around=-2.0)

        def attend(self, x):
            k, v = (split_heads(f(x), base.HEADS) for f in (self.k, self.v))
            q = split_heads(F.linear(x, self.q.weight + 2.0 * self.lora_b @ self.lora_a), base.HEADS)
            place = torch.arange(x.shape[1])
            distance = (place[:, None] - place[None, :]).to(x.dtype)
            bias = -torch.exp(self.slope)[:, None, None] * distance.clamp(min=0)
            fade = torch.exp(-torch.exp(self.decay)[:, None, None] * distance.clamp(min=0)).tril()
            scores = q @ k.transpose(-2, -1) / math.sqrt(head_width()) + bias
            shares = torch.softmax(scores.masked_fill(distance < 0, float("-inf")), -1)
            return self.o(join_heads((shares * fade) @ v))


def operator(name, inputs, shapes, **attributes):
    """A node of onnxruntime's domain, by its first result."""
    return torch.onnx.ops.symbolic_multi_out(f"com.microsoft::{name}", inputs, attributes, dtypes=[inputs[0].dtype] * 2, shapes=shapes, version=1)[0]


def linear_attention(q, k, v, decay, beta, rule):
    """Packed rows (b, s, heads * width), position by position, in f32 as transformers has it; in an export one operator."""
    b, s, _ = q.shape
    width, states = head_width(), v.shape[2] // head_width()
    if torch.onnx.is_in_onnx_export():
        shapes = [[b, s, max(q.shape[2], v.shape[2])], [b, states, width, width]]
        return operator("LinearAttention", (q, k, v, None, decay, beta), shapes, update_rule=rule, q_num_heads=q.shape[2] // width, kv_num_heads=states)
    kind, (q, k, v, decay) = q.dtype, (t.float() for t in (q, k, v, decay))
    q, k, v = (t.reshape(b, s, -1, width) for t in (q, k, v))
    decay, queries = decay.reshape(b, s, states, -1, 1), max(q.shape[2], states)
    k, q = k.repeat_interleave(states // k.shape[2], 2), q.repeat_interleave(queries // q.shape[2], 2)
    state, rows = q.new_zeros(b, states, width, width), []
    for t in range(s):
        state, new = state * decay[:, t].exp(), v[:, t]
        if beta is not None:
            new = beta.float()[:, t, :, None] * (new - torch.einsum("bhk,bhkv->bhv", k[:, t], state))
        state = state + k[:, t, :, :, None] * new[:, :, None]
        rows.append(torch.einsum("bhk,bhkv->bhv", q[:, t] * width**-0.5, state.repeat_interleave(queries // states, 1)))
    return torch.stack(rows, 1).reshape(b, s, -1).to(kind)


class Recurrent(Decoder):
    """Qwen3-Next's order, as an exporter for onnxruntime writes it: a short convolution and the gated delta rule with two heads of queries and keys for four of
    values; then rows of a state that decay by themselves (gated linear attention), queries in groups; then attention."""

    Block = Block

    class Delta(Block):
        def __init__(self):
            super().__init__()
            self.q, self.k = linear(base.WIDTH, base.WIDTH // 2), linear(base.WIDTH, base.WIDTH // 2)
            self.short = nn.Conv1d(base.WIDTH, base.WIDTH, 4, groups=base.WIDTH)
            self.a, self.b = linear(base.WIDTH, base.HEADS), linear(base.WIDTH, base.HEADS)
            self.A_log, self.dt_bias = scattered(base.HEADS, around=0.3), scattered(base.HEADS, around=0.1)

        def convolved(self, x):
            x = x.transpose(1, 2)
            if torch.onnx.is_in_onnx_export():
                return operator("CausalConvWithState", (x, self.short.weight, self.short.bias, None), [x.shape, [*x.shape[:2], 3]], activation="silu").transpose(1, 2)
            return F.silu(self.short(F.pad(x, (3, 0)))).transpose(1, 2)

        def attend(self, x):
            q, k = self.convolved(torch.cat([self.q(x), self.k(x)], -1)).chunk(2, -1)
            q, k = (F.normalize(t.reshape(*t.shape[:2], -1, head_width()), dim=-1).flatten(2) for t in (q, k))
            decay = -self.A_log.float().exp() * F.softplus(self.a(x).float() + self.dt_bias)
            return self.o(linear_attention(q, k, self.v(x), decay, torch.sigmoid(self.b(x)), "gated_delta"))

    class Rows(Block):
        def __init__(self):
            super().__init__()
            self.k, self.v, self.a = (linear(base.WIDTH, base.WIDTH // 2) for _ in range(3))

        def attend(self, x):
            return self.o(linear_attention(self.q(x), self.k(x), self.v(x), F.logsigmoid(self.a(x).float()) / 4, None, "gated"))

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([self.Delta(), self.Rows(), self.Block()])


class FreshDecays(Decoder):
    """A short causal convolution and a running sum that forgets, as in Mamba; -exp(a_log) is the same in all layers, as it is before anybody trains it."""

    class Block(Block):
        class Mixer(nn.Module):
            def __init__(self):
                super().__init__()
                self.step, self.out = linear(base.WIDTH, base.HEADS), linear(base.WIDTH, base.WIDTH)
                self.convolution = nn.Conv1d(base.WIDTH, base.WIDTH, 4, groups=base.WIDTH, padding=3)
                self.a_log = nn.Parameter(torch.log(torch.arange(1.0, base.HEADS + 1)).unsqueeze(1))
                self.d = scattered(base.HEADS, around=1.0)

            def forward(self, x):
                y = F.silu(self.convolution(x.transpose(1, 2))[..., : x.shape[1]])
                heads = y.view(x.shape[0], base.HEADS, head_width(), x.shape[1])
                decay = -torch.exp(self.a_log.float())
                passed = torch.cumsum(F.softplus(self.step(x)).transpose(1, 2) * decay, dim=-1)
                later = torch.ones(x.shape[1], x.shape[1]).triu(1).bool()
                share = torch.exp((passed[..., None, :] - passed[..., :, None]).transpose(-1, -2).masked_fill(later, float("-inf")))
                heads = torch.einsum("bhts,bhds->bhdt", share, heads) + self.d[:, None, None] * heads
                return self.out(heads.reshape(y.shape).transpose(1, 2))

        def __init__(self):
            super().__init__()
            self.q = self.k = self.v = self.o = None
            self.mixer = self.Mixer()

        def attend(self, x):
            return self.mixer(x)


MODULES = {
    "recurrent": Recurrent,
    "fresh-decays": FreshDecays,
    "fresh-decays-torchscript": FreshDecays,
    "unit-weights": UnitWeights,
    "hashed-bigrams": HashedBigrams,
    "shared-with-adapters": SharedWithAdapters,
    "structured-matrices": StructuredMatrices,
    "learned-activations": LearnedActivations,
    "linear-attention": LinearAttention,
    "adaptive-embeddings": AdaptiveEmbeddings,
    "sigmoid-attention": SigmoidAttention,
    "canon": Canon,
    "mixture-of-softmaxes": MixtureOfSoftmaxes,
    "patches": Patches,
    "merged-adapters": MergedAdapters,
}
