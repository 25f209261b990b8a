// Linear attention and causal convolutions in primitive ops. Inside of a chunk of positions products of matrices take
// the place of the recurrence (Yang et al., arXiv:2312.06635, section 4; of delta rules arXiv:2406.06484, section 3.2,
// and arXiv:2412.06464, section 3.3), from one chunk to the next goes the state.
#include "compiler/Dialect/Graph/Expr.h"
#include "compiler/Dialect/Graph/Recurrence.h"
#include "compiler/Dialect/Graph/Scan.h"
#include "compiler/Dialect/Graph/WideOps.h"

using namespace mlir;
using namespace ztc::graph;

Value ztc::graph::sharedHeads(Value value) {
  auto outer = value.getDefiningOp<ReshapeOp>();
  auto repeat = outer ? outer.getX().getDefiningOp<BroadcastOp>() : BroadcastOp();
  if (!repeat)
    return {};
  ArrayRef<int64_t> one = cast<RankedTensorType>(repeat.getX().getType()).getShape(),
                    all = cast<RankedTensorType>(repeat.getType()).getShape(),
                    joined = cast<RankedTensorType>(value.getType()).getShape();
  const bool repeats = one.size() == 5 && all.size() == 5 && one[3] == 1 && all[3] > 1 &&
                       one.take_front(3) == all.take_front(3) && one[4] == all[4] &&
                       joined.take_front(2) == all.take_front(2) && joined[3] == all[4];
  return repeats ? repeat.getX() : Value();
}

namespace {

/// What exp takes to exactly 0 in every type, and of which a chunk's sum is finite: the difference of two sums of -inf
/// is not a number.
constexpr double kLeastDecay = -1e3;

/// x to a multiple of 1/256: f32 numbers of this size are that far apart. Of 64 such numbers down to kLeastDecay every
/// sum and every difference of two sums is exact in f32: they have at most 24 bits.
Expr onGrid(const Expr &x) {
  const Expr shift = constantLike(x, 1.5 * (1 << 23) / 256);
  return (x + shift) - shift;
}

Expr padded(const Expr &x, ArrayRef<int64_t> low, ArrayRef<int64_t> shape) {
  if (x.type().getShape() == shape)
    return x;
  return x.with(PadOp::create(x.builder(), x.loc(), x.type().clone(shape), x.value(), low));
}

/// The index along `dimension` of a tensor of this shape, as i32.
Expr indexAlong(const Expr &place, ArrayRef<int64_t> shape, int64_t dimension) {
  auto type = RankedTensorType::get(shape, place.builder().getI32Type());
  return place.with(IotaOp::create(place.builder(), place.loc(), type, dimension));
}

/// x where the condition holds, else 0.
Expr where(const Expr &condition, const Expr &x) {
  return select(condition, x, zeroLike(x));
}

/// Part `index` of two halves of the dimension before the last.
Expr half(const Expr &x, int64_t index) {
  SmallVector<int64_t> offsets(x.rank(), 0), sizes(x.type().getShape());
  sizes[x.rank() - 2] /= 2;
  offsets[x.rank() - 2] = index * sizes[x.rank() - 2];
  return slice(x, offsets, sizes);
}

/// [[a, 0], [c, d]].
Expr lowerBlocks(const Expr &a, const Expr &c, const Expr &d) {
  const int64_t last = a.rank() - 1;
  return concat({concat({a, zeroLike(a)}, last), concat({c, d}, last)}, last - 1);
}

/// Linear attention in the making. R counts pairs of a chunk and a head of a sequence, the chunks in front: (N B H).
class Chunks {
public:
  Chunks(LinearAttentionOp op, OpBuilder &builder) : op(op), place(builder, op.getLoc(), op.getQ()) {
    Expr v = place.with(op.getV());
    B = v.dim(0), T = v.dim(1), H = v.dim(2), V = v.dim(3), K = place.dim(3), G = place.dim(2) / H;
    C = op.getChunk(), N = (T + C - 1) / C, R = N * B * H;
  }

  SmallVector<Value> run() {
    const Value fewQueries = sharedHeads(op.getQ()), fewKeys = sharedHeads(op.getK());
    const bool hasOneDecay = !op.getDecay() || place.with(op.getDecay()).dim(3) == 1;
    if (fewQueries && fewKeys && fewQueries.getType() == fewKeys.getType() && G == 1 && !op.getDelta() && hasOneDecay)
      return runShared(fewQueries, fewKeys);
    // transformers computes the recurrence in f32 whatever the model is stored in
    const WideOps wide(place.builder());
    Expr q = chunked(op.getQ(), G), k = chunked(op.getK()), v = chunked(op.getV());
    if (const double scale = op.getScale().convertToDouble(); scale != 1.0)
      q = q * scale;
    readDecay();
    readDocuments();
    Expr toState = k, update = v; // what a chunk adds to the state is toState^T update
    std::optional<Expr> removed;  // times S it is what the state takes from the update, below zero
    if (op.getDelta()) {
      Expr beta = chunked(op.getBeta());
      Expr below = pairs(k, k, 1) * broadcast(beta, {R, C, C}); // of which the inverse reads what its name says
      if (starts)
        below = seen(below, 1, /*diagonal=*/false);
      Expr inverse = place.with(UnitLowerInverseOp::create(place.builder(), place.loc(), below.value()));
      update = matmul(inverse, v * broadcastLike(beta, v));
      removed = matmul(inverse, fromBefore(k * broadcastLike(-beta, k), 1));
    }
    if (sumsAfter)
      toState = toState * broadcastLike(exp(*sumsAfter), toState);
    if (starts)
      toState = where(broadcastLike(offset() >= broadcastLike(lastStart(), offset()), toState), toState);
    Expr state = throughChunks(toState, update, removed);
    Expr result = matmul(seen(pairs(q, k, G), G, /*diagonal=*/true), update);
    if (N > 1 || op.getPast())
      result = result + matmul(fromBefore(q, G), *before);
    result = transpose(reshape(result, {N, B, H, G, C, V}), {1, 0, 4, 2, 3, 5});
    return results(result, reshape(state, {B, H, K, V}));
  }

private:
  /// (B, N, C, heads..., V), and (B, H, K, V), as the op gives them.
  SmallVector<Value> results(const Expr &y, const Expr &state) {
    Expr result = reshape(y, {B, N * C, H * G, V});
    if (N * C > T)
      result = slice(result, {0, 0, 0, 0}, {B, T, H * G, V});
    return {castTo(result, place.with(op.getY()).elementType()).value(),
            castTo(state, place.with(op.getState()).elementType()).value()};
  }

  /// Where `shared` heads of queries and keys serve all of values, and each of these has its decay: keys and queries
  /// are multiplied once, and the states of the heads stand side by side, (K, heads * V). Decays enter with values.
  SmallVector<Value> runShared(Value fewQueries, Value fewKeys) {
    const WideOps wide(place.builder());
    const int64_t shared = place.with(fewKeys).dim(2), each = H / shared, all = N * B * shared;
    auto ofFew = [&](Value value) {
      Expr x = place.with(value);
      return chunked(reshape(x, {B, T, shared, K}).value(), 1, shared);
    };
    Expr q = ofFew(fewQueries), k = ofFew(fewKeys), v = chunked(op.getV());
    if (const double scale = op.getScale().convertToDouble(); scale != 1.0)
      q = q * scale;
    readDecay();
    readDocuments();
    // (R, C, 1) as (all, C, each, 1): beside each position the numbers of its heads.
    auto beside = [&](const Expr &x) {
      return reshape(transpose(reshape(x, {all, each, x.dim(1)}), {0, 2, 1}), {all, x.dim(1), each, 1});
    };
    Expr scores = reshape(matmul(q, k, false, true), {all, 1, C, C});
    scores = reshape(broadcast(scores, {all, each, C, C}), {R, C, C});
    if (between)
      scores = scores * exp(*between);
    Expr result = matmul(seen(scores, 1, /*diagonal=*/true), v);
    result = transpose(reshape(result, {N, B, H, C, V}), {1, 0, 3, 2, 4});

    Expr added = transpose(reshape(v, {all, each, C, V}), {0, 2, 1, 3});
    if (sumsAfter)
      added = added * broadcastLike(exp(beside(*sumsAfter)), added);
    if (starts) {
      Expr isLast = offset() >= broadcastLike(lastStart(), offset());
      added = where(broadcastLike(beside(isLast), added), added);
    }
    std::optional<Expr> factors;
    if (total)
      factors = exp(beside(*total));
    if (starts) {
      Expr goesOn = beside(lastStart() < zeroLike(lastStart()));
      factors = where(goesOn, factors ? *factors : constantLike(castTo(goesOn, q.elementType()), 1.0));
    }
    Expr last = throughShared(k, reshape(added, {all, C, each * V}), factors, shared);
    if (N > 1 || op.getPast()) {
      Expr read = reshape(matmul(q, *before), {all, C, each, V});
      if (sumsUpTo)
        read = read * broadcastLike(exp(beside(*sumsUpTo)), read);
      if (starts)
        read = where(broadcastLike(beside(*starts < zeroLike(*starts)), read), read);
      read = transpose(reshape(read, {N, B, shared, C, each, V}), {1, 0, 3, 2, 4, 5});
      result = result + reshape(read, {B, N, C, H, V});
    }
    last = transpose(reshape(last, {B, shared, K, each, V}), {0, 1, 3, 2, 4});
    return results(result, reshape(last, {B, H, K, V}));
  }

  /// throughChunks with states side by side, (B * shared, K, each * V), and `factors` (all, 1, each, 1) of them.
  Expr throughShared(const Expr &k, const Expr &added, const std::optional<Expr> &factors, int64_t shared) {
    const int64_t all = k.dim(0), each = H / shared;
    std::optional<Expr> past, decay;
    if (op.getPast()) {
      Expr apart = reshape(widen(place.with(op.getPast())), {B, shared, each, K, V});
      past = reshape(transpose(apart, {0, 1, 3, 2, 4}), {B * shared, K, each * V});
    }
    if (factors)
      decay = reshape(*factors, {all, 1, each});
    return passStates({}, {}, {}, matmul(k, added, true, false), decay, past);
  }

  /// (B, T, H * group, D) as (R, group * C, D), zeros after the last position; of other numbers of heads alike.
  Expr chunked(Value value, int64_t group = 1, int64_t heads = 0) {
    Expr x = widen(place.with(value));
    const int64_t D = x.dim(3), each = heads ? heads : H;
    x = padded(x, {0, 0, 0, 0}, {B, N * C, each * group, D});
    x = transpose(reshape(x, {B, N, C, each, group, D}), {1, 0, 3, 4, 2, 5});
    return reshape(x, {N * B * each, group * C, D});
  }

  /// Of each row (R, C, D), for each head of queries: (R, group * C, D).
  Expr forGroup(const Expr &x, int64_t group) {
    if (group == 1)
      return x;
    const int64_t D = x.dim(2);
    return reshape(broadcast(reshape(x, {R, 1, C, D}), {R, group, C, D}), {R, group * C, D});
  }

  /// Sums of the decays' logarithms: of all positions of the chunk up to one (itself included), of those after it, of
  /// all, and, where a head has one decay for all of its rows, of those between two. What is far below zero elsewhere
  /// costs them no digit, and exp of none is above 1.
  void readDecay() {
    if (!op.getDecay())
      return;
    Expr g = chunked(op.getDecay());
    Expr least = constantLike(g, kLeastDecay);
    g = select(g < least, least, g); // what is not a number stays so
    decay = g;
    if (g.dim(2) == 1) {
      // In two parts, whose differences cancel nothing: the first is exact, the second below 1/8.
      const Expr coarse = onGrid(g), first = upTo(coarse), second = upTo(g - coarse);
      auto difference = [&](auto from, auto to) { return (from(first) - to(first)) + (from(second) - to(second)); };
      auto ofRow = [&](const Expr &x) { return broadcast(x, {R, C, C}); };
      auto ofColumn = [&](const Expr &x) { return broadcast(reshape(x, {R, 1, C}), {R, C, C}); };
      auto ofLast = [&](const Expr &x) { return broadcastLike(slice(x, {0, C - 1, 0}, {R, 1, 1}), x); };
      Expr row = indexAlong(g, {1, C, C}, 1), column = indexAlong(g, {1, C, C}, 2), all = difference(ofRow, ofColumn);
      between = where(broadcastLike(column < row, all), all);
      sumsUpTo = first + second;
      sumsAfter = difference(ofLast, [](const Expr &x) { return x; });
    } else {
      levels.push_back({g, zeroLike(g)});
      for (int64_t size = 1; size < C; size *= 2)
        levels.push_back(joined(levels.back(), size));
      sumsUpTo = levels.back().upTo;
      sumsAfter = levels.back().after;
    }
    total = slice(*sumsUpTo, {0, C - 1, 0}, {R, 1, g.dim(2)});
  }

  /// For each position of a chunk the sum of x (R, C, 1) up to it.
  Expr upTo(const Expr &x) {
    Expr row = indexAlong(x, {1, C, C}, 1), column = indexAlong(x, {1, C, C}, 2);
    Expr all = broadcast(reshape(x, {R, 1, C}), {R, C, C});
    return reduceSumLast(where(broadcastLike(column <= row, all), all));
  }

  /// For blocks of some number of positions: sums (R, C, K) of those of the block up to a position, and after it.
  struct BlockSums {
    Expr upTo, after;
  };

  /// Of blocks twice as large.
  BlockSums joined(const BlockSums &sums, int64_t size) {
    const int64_t D = sums.upTo.dim(2), n = C / (2 * size);
    auto blocks = [&](const Expr &x) { return reshape(x, {R * n, 2 * size, D}); };
    Expr upTo = blocks(sums.upTo), after = blocks(sums.after);
    Expr first = half(upTo, 0), second = half(upTo, 1);
    auto lastOf = [&](const Expr &x) { return broadcastLike(slice(x, {0, size - 1, 0}, {R * n, 1, D}), x); };
    Expr nextUpTo = concat({first, second + lastOf(first)}, 1);
    Expr nextAfter = concat({half(after, 0) + lastOf(second), half(after, 1)}, 1);
    return {reshape(nextUpTo, {R, C, D}), reshape(nextAfter, {R, C, D})};
  }

  void readDocuments() {
    if (!op.getDocumentStarts())
      return;
    Expr given = place.with(op.getDocumentStarts());
    if (N * C > T) // what is filled up belongs to the last document, so that the last state is that one's
      given = concat({given, broadcast(slice(given, {0, T - 1}, {B, 1}), {B, N * C - T})}, 1);
    Expr start = chunked(broadcast(reshape(given, {B, N * C, 1, 1}), {B, N * C, H, 1}).value());
    Expr chunk = indexAlong(place, {N, B * H * C}, 0) * double(C);
    starts = start - reshape(chunk, {R, C, 1}); // counted from the chunk's first position
  }

  /// The position in the chunk, (R, C, 1).
  Expr offset() { return indexAlong(place, {R, C, 1}, 1); }
  /// Where the document starts that the chunk's last position is of, (R, 1, 1).
  Expr lastStart() { return slice(*starts, {0, C - 1, 0}, {R, 1, 1}); }

  /// sum_d a[i, d] b[j, d] times the decay from after j to i, (R, group * C, C): any finite number for j > i.
  Expr pairs(const Expr &a, const Expr &b, int64_t group) {
    if (between) {
      Expr weights = broadcast(reshape(exp(*between), {R, 1, C, C}), {R, group, C, C});
      return matmul(a, b, false, true) * reshape(weights, {R, group * C, C});
    }
    if (!decay)
      return matmul(a, b, false, true);
    return pairsByRows(a, forGroup(b, group), group);
  }

  /// Where each row of the state has its own decay. Of a block of positions and its halves, pairs across the halves are
  /// a product: exp of the sum from after j to the end of the first half goes to b, exp of that from there to i to a.
  Expr pairsByRows(const Expr &a, const Expr &b, int64_t group) {
    const int64_t all = R * group;
    Expr result = reduceSumLast(reshape(a, {all * C, 1, K}) * reshape(b, {all * C, 1, K}));
    for (int64_t size = 1, level = 0; size < C; size *= 2, ++level) {
      const int64_t n = all * C / (2 * size);
      auto blocks = [&](const Expr &x) { return reshape(x, {n, 2 * size, K}); };
      auto decayed = [&](const Expr &x, const Expr &sums, int64_t index) {
        return half(blocks(x), index) * exp(half(blocks(forGroup(sums, group)), index));
      };
      Expr across = matmul(decayed(a, levels[level].upTo, 1), decayed(b, levels[level].after, 0), false, true);
      Expr diagonal = reshape(result, {n, 2, size, size});
      auto at = [&](int64_t index) {
        return reshape(slice(diagonal, {0, index, 0, 0}, {n, 1, size, size}), {n, size, size});
      };
      result = lowerBlocks(at(0), across, at(1));
    }
    return reshape(result, {R, group * C, C});
  }

  /// x (R, group * C, C) where position i sees j: those before it, of the same document; itself too on the `diagonal`.
  Expr seen(const Expr &x, int64_t group, bool diagonal) {
    Expr i = indexAlong(x, {1, C, C}, 1), j = indexAlong(x, {1, C, C}, 2);
    Expr visible = diagonal ? j <= i : j < i;
    if (starts) {
      Expr all = indexAlong(x, {R, C, C}, 2);
      visible = broadcastLike(visible, all) & (all >= broadcastLike(*starts, all));
    } else {
      visible = broadcast(visible, {R, C, C});
    }
    if (group > 1)
      visible = reshape(broadcast(reshape(visible, {R, 1, C, C}), {R, group, C, C}), {R, group * C, C});
    return where(visible, x);
  }

  /// Rows x (R, group * C, K) that multiply the state before the chunk, decayed up to their position.
  Expr fromBefore(Expr x, int64_t group) {
    if (sumsUpTo)
      x = x * broadcastLike(forGroup(exp(*sumsUpTo), group), x);
    if (starts)
      x = where(broadcastLike(forGroup(*starts < zeroLike(*starts), group), x), x);
    return x;
  }

  /// Sets `before`; returns the last state. Updates by the delta rule become what they are once the state is known.
  Expr throughChunks(const Expr &toState, Expr &update, const std::optional<Expr> &removed) {
    std::optional<Expr> past, factors;
    if (op.getPast())
      past = widen(reshape(place.with(op.getPast()), {B * H, K, V}));
    if (total) { // of each row of S
      Expr all = total->dim(2) == 1 ? *total : reshape(*total, {R, K, 1});
      factors = exp(all);
      if (starts)
        factors = where(broadcastLike(lastStart() < zeroLike(lastStart()), *factors), *factors);
    } else if (starts) {
      factors = where(lastStart() < zeroLike(lastStart()), constantLike(castTo(lastStart(), q32()), 1.0));
    }
    // Before a first chunk without a past there is nothing to be removed.
    if (!removed || (N == 1 && !past))
      return passStates({}, {}, {}, matmul(toState, update, true, false), factors, past);
    return passStates(toState, removed, &update, {}, factors, past);
  }

  /// By graph.state_passing: sets `before`, and `update` to its x.
  Expr passStates(const std::optional<Expr> &to, const std::optional<Expr> &from, Expr *update,
                  const std::optional<Expr> &plus, const std::optional<Expr> &decay, const std::optional<Expr> &past) {
    auto valueOf = [](const std::optional<Expr> &x) { return x ? x->value() : Value(); };
    const Expr &shape = plus ? *plus : *to;
    const int64_t rows = shape.dim(0), width = plus ? plus->dim(2) : V;
    auto type = [&](int64_t first) { return shape.type().clone({first, K, width}); };
    auto passed = StatePassingOp::create(place.builder(), place.loc(), type(rows), type(rows / N),
                                         update ? update->type() : Type(), valueOf(to), valueOf(from),
                                         update ? update->value() : Value(), valueOf(plus), valueOf(decay),
                                         valueOf(past), uint64_t(N), /*reverse=*/false);
    before = place.with(passed.getBefore());
    if (update)
      *update = place.with(passed.getX());
    return place.with(passed.getLast());
  }

  Type q32() { return computeType(place.elementType()); }

  LinearAttentionOp op;
  Expr place;                              ///< q
  int64_t B, T, H, V, K, G, C, N, R;       ///< G: heads of queries for one of keys; C: positions of a chunk; N: chunks
  std::optional<Expr> decay;               ///< (R, C, 1 or K)
  std::optional<Expr> sumsUpTo, sumsAfter; ///< (R, C, 1 or K)
  std::optional<Expr> total;               ///< (R, 1, 1 or K)
  std::optional<Expr> between;             ///< (R, C, C): from after j to i; 0 for j > i
  SmallVector<BlockSums> levels;           ///< of blocks of 1, 2, 4, ... positions, where rows have their own decays
  std::optional<Expr> starts;              ///< (R, C, 1) of i32: where the position's document starts, in the chunk
  std::optional<Expr> before;              ///< the states before each chunk: (R, K, V), or side by side
};

/// Row `tap` of taps (k, C), for rows of positions.
Expr factorOf(const Expr &taps, int64_t tap) {
  const int64_t C = taps.dim(1);
  return widen(reshape(slice(taps, {tap, 0}, {1, C}), {1, 1, C}));
}

/// The positions (B, T, C) that a filter of k taps reads, in f32, and those that read them.
class FilterReads {
public:
  FilterReads(const Expr &place, int64_t k, Value documentStarts) : place(place), k(k) {
    if (documentStarts)
      start = broadcast(reshape(place.with(documentStarts), {place.dim(0), place.dim(1), 1}), place.type().getShape());
  }

  /// For each position what `tap` reads, of x.
  Expr before(const Expr &x, int64_t tap) const {
    const int64_t T = x.dim(1);
    Expr longer = padded(x, {0, k - 1, 0}, {x.dim(0), T + k - 1, x.dim(2)});
    return whereRead(widen(slice(longer, {0, tap, 0}, x.type().getShape())), tap);
  }

  /// For each position what reads it by `tap`, of dy.
  Expr after(const Expr &dy, int64_t tap) const {
    const int64_t T = dy.dim(1);
    Expr longer = padded(whereRead(dy, tap), {0, 0, 0}, {dy.dim(0), T + k - 1, dy.dim(2)});
    return widen(slice(longer, {0, k - 1 - tap, 0}, dy.type().getShape()));
  }

private:
  /// x at positions of which `tap` reads their own document, else 0.
  Expr whereRead(const Expr &x, int64_t tap) const {
    const int64_t back = k - 1 - tap;
    if (!start || !back)
      return x;
    Expr position = indexAlong(place, x.type().getShape(), 1) - constantLike(*start, double(back));
    return where(position >= *start, x);
  }

  const Expr &place;
  const int64_t k;
  std::optional<Expr> start; ///< (B, T, C) of i32
};

} // namespace

FailureOr<SmallVector<Value>> LinearAttentionOp::decompose(OpBuilder &builder) {
  if (std::optional<SmallVector<Value>> scan = asSelectiveScan(*this, builder))
    return std::move(*scan);
  return Chunks(*this, builder).run();
}

FailureOr<SmallVector<Value>> CausalConvolutionOp::decompose(OpBuilder &builder) {
  Expr x(builder, getLoc(), getX()), taps = transpose(x.with(getWeight()), {1, 0});
  Expr row = getPast() ? concat({x.with(getPast()), x}, 1) : x;
  Expr y = x.with(CausalFilterOp::create(builder, getLoc(), row.value(), taps.value(), getBias(), getDocumentStarts()));
  if (getPast())
    y = slice(y, {0, taps.dim(0) - 1, 0}, x.type().getShape());
  return SmallVector<Value>{y.value()};
}

FailureOr<SmallVector<Value>> CausalFilterOp::decompose(OpBuilder &builder) {
  Expr x(builder, getLoc(), getX()), taps = x.with(getTaps());
  const FilterReads reads(x, taps.dim(0), getDocumentStarts());
  std::optional<Expr> sum;
  for (int64_t tap = 0; tap < taps.dim(0); ++tap) {
    Expr there = reads.before(x, tap), term = there * broadcastLike(factorOf(taps, tap), there);
    sum = sum ? *sum + term : term;
  }
  if (getBias())
    sum = *sum + broadcastLike(reshape(widen(x.with(getBias())), {1, 1, x.dim(2)}), *sum);
  return SmallVector<Value>{castTo(*sum, x.elementType()).value()};
}

FailureOr<SmallVector<Value>> CausalFilterGradOp::decompose(OpBuilder &builder) {
  Expr x(builder, getLoc(), getX()), taps = x.with(getTaps()), dy = x.with(getDy());
  const FilterReads reads(x, taps.dim(0), getDocumentStarts());
  std::optional<Expr> dx;
  SmallVector<Value> results(1);
  auto addSum = [&](const Expr &terms) {
    Type type = getElementTypeOrSelf(getSums()[results.size() - 1].getType());
    results.push_back(castTo(reshape(reduceSum(terms, {0, 1}), {x.dim(2)}), type).value());
  };
  for (int64_t tap = 0; tap < taps.dim(0); ++tap) {
    Expr after = reads.after(dy, tap), term = after * broadcastLike(factorOf(taps, tap), after);
    dx = dx ? *dx + term : term;
    addSum(reads.before(x, tap) * widen(dy));
  }
  if (getBias())
    addSum(widen(dy));
  results[0] = castTo(*dx, x.elementType()).value();
  return results;
}
