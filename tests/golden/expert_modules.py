"""Mixtures of experts in plain PyTorch, as people write them: loops over the rows that chose an expert, and sums over all experts whose shares are 0 where they were not
chosen. In the form of research_modules.py; each layer in another way."""
import torch
from torch import nn
from torch.nn import functional as F

import family_modules as base
from mixing_modules import Block
from research_modules import Decoder, linear, scattered

EXPERTS, CHOSEN, INNER = 4, 2, 20


class Expert(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.up, self.down = linear(base.WIDTH, INNER), linear(base.WIDTH, INNER), linear(INNER, base.WIDTH)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Experts(Block):
    def __init__(self):
        super().__init__()
        del self.up, self.down
        self.router, self.experts = linear(base.WIDTH, EXPERTS), nn.ModuleList([Expert() for _ in range(EXPERTS)])

    def choose(self, x):
        shares, chosen = torch.topk(torch.softmax(self.router(x), -1), CHOSEN, dim=-1)
        return shares / shares.sum(-1, keepdim=True), chosen

    def feed(self, x):
        return self.mix(x.reshape(-1, x.shape[-1])).view(x.shape)


class PickedRows(Decoder):
    """The rows that chose an expert, as many as data say: `torch.where` of the choices, and of one-hot vectors in the order of transformers' first Mixtral."""

    Block = Experts

    class Where(Experts):
        def mix(self, x):
            shares, chosen = self.choose(x)
            y = torch.zeros_like(x)
            for e, expert in enumerate(self.experts):
                token, k = torch.where(chosen == e)
                y = y.index_add(0, token, expert(x[token]) * shares[token, k, None])
            return y

    class OneHot(Experts):
        def mix(self, x):
            shares, chosen = self.choose(x)
            y = torch.zeros_like(x)
            mask = F.one_hot(chosen, num_classes=EXPERTS).permute(2, 1, 0)
            for e, expert in enumerate(self.experts):
                k, token = torch.where(mask[e])
                rows = x[None, token].reshape(-1, x.shape[-1])
                y.index_add_(0, token, expert(rows) * shares[token, k, None])
            return y

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([self.Where(), self.OneHot()])


class ComparedChoices(Decoder):
    """Shares by comparison, by a softmax over minus infinity that is read twice, by one-hot vectors of the best expert, and rows that a mask picks and writes."""

    Block = Experts

    class Compared(Experts):
        def mix(self, x):
            shares, chosen = self.choose(x)
            return sum((shares * (chosen == e)).sum(-1, keepdim=True) * expert(x) for e, expert in enumerate(self.experts))

    class Hidden(Experts):
        def mix(self, x):
            logits = self.router(x)
            best, chosen = logits.topk(CHOSEN, -1)
            shares = torch.full_like(logits, float("-inf")).scatter(-1, chosen, best).softmax(-1)
            y = torch.zeros_like(x)
            for e, expert in enumerate(self.experts):
                y = y + shares[..., e : e + 1] * expert(x)
            return y * (1 + shares.pow(2).sum(-1, keepdim=True))

    class Best(Experts):
        def mix(self, x):
            share, chosen = torch.softmax(self.router(x), -1).max(-1)
            mask = F.one_hot(chosen, EXPERTS).to(x.dtype)
            return sum((mask[..., e] * share).unsqueeze(-1) * expert(x) for e, expert in enumerate(self.experts))

    class Masked(Experts):
        def mix(self, x):
            shares, chosen = self.choose(x)
            shares = torch.zeros(x.shape[0], EXPERTS, dtype=x.dtype).scatter(-1, chosen, shares)
            y = torch.zeros_like(x)
            for e, expert in enumerate(self.experts):
                mask = (chosen == e).any(-1)
                y[mask] += expert(x[mask]) * shares[mask, e].unsqueeze(-1)
            return y

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([self.Compared(), self.Hidden(), self.Best(), self.Masked()])


class StackedExperts(Decoder):
    """All experts as one tensor: einsum on one-hot shares, a mask that dispatches and weights that combine, a batched product with shares among zeros."""

    class Stack(Experts):
        def __init__(self):
            super().__init__()
            del self.experts
            self.gate, self.up, self.down = scattered(EXPERTS, base.WIDTH, INNER), scattered(EXPERTS, base.WIDTH, INNER), scattered(EXPERTS, INNER, base.WIDTH)

    Block = Stack

    class Einsum(Stack):
        def mix(self, x):
            shares, chosen = self.choose(x)
            shares = (F.one_hot(chosen, EXPERTS).to(x.dtype) * shares[..., None]).sum(1)
            inner = F.silu(torch.einsum("td,edf->tef", x, self.gate)) * torch.einsum("td,edf->tef", x, self.up)
            return torch.einsum("ted,te->td", torch.einsum("tef,efd->ted", inner, self.down), shares)

    class Dispatch(Stack):
        def mix(self, x):
            shares, chosen = self.choose(x)
            mask = F.one_hot(chosen, EXPERTS).to(x.dtype)
            combine = torch.einsum("tke,tk->te", mask, shares)
            rows = torch.einsum("te,td->etd", mask.sum(1), x)
            rows = torch.bmm(F.silu(torch.bmm(rows, self.gate)) * torch.bmm(rows, self.up), self.down)
            return torch.einsum("etd,te->td", rows, combine)

    class Batched(Stack):
        def mix(self, x):
            shares, chosen = self.choose(x)
            shares = torch.zeros(x.shape[0], EXPERTS, dtype=x.dtype).scatter_add(1, chosen, shares)
            rows = x.unsqueeze(0).expand(EXPERTS, -1, -1)
            rows = torch.bmm(F.silu(torch.bmm(rows, self.gate)) * torch.bmm(rows, self.up), self.down)
            return (rows * shares.t().unsqueeze(-1)).sum(0)

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([self.Einsum(), self.Dispatch(), self.Batched()])


MODULES = {"picked-rows": PickedRows, "compared-choices": ComparedChoices, "experts-in-one": StackedExperts}
