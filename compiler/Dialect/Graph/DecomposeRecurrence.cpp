// Linear attention and causal convolutions in primitive ops. Inside of a chunk of positions products of matrices take
// the place of the recurrence (Yang et al., arXiv:2312.06635, section 4; of delta rules arXiv:2406.06484, section 3.2,
// and arXiv:2412.06464, section 3.3), from one chunk to the next goes the state.
#include "compiler/Dialect/Graph/Expr.h"
#include "compiler/Dialect/Graph/Recurrence.h"
#include "compiler/Dialect/Graph/Scan.h"
#include "compiler/Dialect/Graph/WideOps.h"

using namespace mlir;
using namespace ztc::graph;

namespace {

/// What exp takes to exactly 0 in every type, and of which a chunk's sum is finite: a decay of -inf would make the
/// product with a zero in a sum of decays not a number.
constexpr double kLeastDecay = -1e4;

/// Matrices of up to this width are inverted by products of matrices of that width; wider ones by halves.
constexpr int64_t kInverseBlock = 16;

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

/// Rows [from, from + count) of the first dimension.
Expr rows(const Expr &x, int64_t from, int64_t count) {
  SmallVector<int64_t> offsets(x.rank(), 0), sizes(x.type().getShape());
  offsets[0] = from;
  sizes[0] = count;
  return slice(x, offsets, sizes);
}

/// [[a, 0], [c, d]].
Expr lowerBlocks(const Expr &a, const Expr &c, const Expr &d) {
  const int64_t last = a.rank() - 1;
  return concat({concat({a, zeroLike(a)}, last), concat({c, d}, last)}, last - 1);
}

/// (I + a)^-1 of matrices (R, n, n), n a power of two up to kInverseBlock, of which only the part below the diagonal is
/// not 0. Blocks of one row are their own inverses; of two neighbours T1 and T2 of the inverses so far,
/// [[T1, 0], [-T2 a21 T1, T2]] is the next, and with the other blocks of a set to 0 that is T - T a T for all at once.
/// Unlike a product of powers of a no term is larger than the parts of the inverse.
Expr inverseOfBlock(const Expr &a) {
  const int64_t n = a.dim(1);
  Expr row = indexAlong(a, {n, n}, 0), column = indexAlong(a, {n, n}, 1);
  auto blockOf = [&](const Expr &index, int64_t size) { // whole multiples of powers of two are exact
    return truncate(castTo(index, a.elementType()) * (1.0 / double(size)));
  };
  Expr one = broadcastLike(where(row == column, constantLike(castTo(row, a.elementType()), 1.0)), a), inverse = one;
  for (int64_t size = 1; size < n; size *= 2) {
    Expr joined = (blockOf(row, 2 * size) == blockOf(column, 2 * size)) & (blockOf(row, size) > blockOf(column, size));
    Expr below = where(broadcastLike(joined, a), a);
    inverse = inverse - (size == 1 ? below : matmul(inverse, matmul(below, inverse)));
  }
  return inverse;
}

/// (I + a)^-1 of matrices (R, n, n) as above, of any power of two n.
Expr inverseOfUnitLower(const Expr &a) {
  const int64_t n = a.dim(1), R = a.dim(0), h = n / 2;
  if (n <= kInverseBlock)
    return inverseOfBlock(a);
  auto part = [&](int64_t row, int64_t column) { return slice(a, {0, row * h, column * h}, {R, h, h}); };
  Expr both = inverseOfUnitLower(concat({part(0, 0), part(1, 1)}, 0));
  Expr first = rows(both, 0, R), second = rows(both, R, R);
  return lowerBlocks(first, -matmul(second, matmul(part(1, 0), first)), second);
}

/// Heads of keys or queries of which several of values have the same one, as in a state space model: the tensor
/// (B, T, fewer, 1, K) whose heads `value` (B, T, H, K) repeats in place; null where it repeats none.
Value sharedHeads(Value value) {
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
    std::optional<Expr> removed;  // what the state takes from the update: removed S
    if (op.getDelta()) {
      Expr beta = chunked(op.getBeta());
      Expr below = seen(pairs(k, k, 1) * broadcast(beta, {R, C, C}), 1, /*diagonal=*/false);
      Expr inverse = C > 1 ? inverseOfUnitLower(below) : constantLike(below, 1.0);
      update = matmul(inverse, v * broadcastLike(beta, v));
      removed = matmul(inverse, fromBefore(k * broadcastLike(beta, k), 1));
    }
    if (sumsAfter)
      toState = toState * broadcastLike(exp(*sumsAfter), toState);
    if (starts)
      toState = where(broadcastLike(offset() >= broadcastLike(lastStart(), offset()), toState), toState);
    Expr state = throughChunks(toState, update, removed);
    Expr result = matmul(seen(pairs(q, k, G), G, /*diagonal=*/true), update);
    if (N > 1 || op.getPast())
      result = result + matmul(fromBefore(q, G), concat(before, 0));
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
      Expr read = reshape(matmul(q, concat(before, 0)), {all, C, each, V});
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
    const int64_t states = B * shared, each = H / shared;
    std::optional<Expr> state;
    if (op.getPast()) {
      Expr past = reshape(widen(place.with(op.getPast())), {B, shared, each, K, V});
      state = reshape(transpose(past, {0, 1, 3, 2, 4}), {states, K, each * V});
    }
    for (int64_t n = 0; n < N; ++n) {
      Expr change = matmul(rows(k, n * states, states), rows(added, n * states, states), true, false);
      before.push_back(state ? *state : zeroLike(change));
      if (state && factors) {
        Expr apart = reshape(*state, {states, K, each, V});
        apart = apart * broadcastLike(rows(*factors, n * states, states), apart);
        state = reshape(apart, {states, K, each * V});
      }
      state = state ? *state + change : change;
    }
    return *state;
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
  /// all, and, where a head has one decay for all of its rows, of those between two. Each is a sum of its own, never a
  /// difference of two: what is far below zero elsewhere costs no digit, and exp of none is above 1.
  void readDecay() {
    if (!op.getDecay())
      return;
    Expr g = chunked(op.getDecay());
    Expr least = constantLike(g, kLeastDecay);
    g = select(g < least, least, g); // what is not a number stays so
    decay = g;
    if (g.dim(2) == 1) {
      Expr row = indexAlong(g, {1, C, C}, 1), column = indexAlong(g, {1, C, C}, 2);
      Expr upTo = broadcast(reshape(g, {R, 1, C}), {R, C, C});
      upTo = where(broadcastLike(column <= row, upTo), upTo);
      sumsUpTo = reduceSumLast(upTo);
      Expr m = indexAlong(g, {C, C}, 0), j = indexAlong(g, {C, C}, 1);
      Expr after = where(m > j, constantLike(castTo(m, g.elementType()), 1.0));
      between = reshape(matmul(reshape(upTo, {R * C, C}), after), {R, C, C});
      sumsAfter = reshape(slice(*between, {0, C - 1, 0}, {R, 1, C}), {R, C, 1});
    } else {
      levels.push_back({g, zeroLike(g)});
      for (int64_t size = 1; size < C; size *= 2)
        levels.push_back(joined(levels.back(), size));
      sumsUpTo = levels.back().upTo;
      sumsAfter = levels.back().after;
    }
    total = slice(*sumsUpTo, {0, C - 1, 0}, {R, 1, g.dim(2)});
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

  /// The states before each chunk go to `before`; returns the last. Updates by the delta rule become what they are once
  /// the state is known.
  Expr throughChunks(const Expr &toState, Expr &update, const std::optional<Expr> &removed) {
    const int64_t heads = B * H;
    std::optional<Expr> state, factors;
    if (op.getPast())
      state = widen(reshape(place.with(op.getPast()), {heads, K, V}));
    if (total) { // of each row of S
      Expr all = total->dim(2) == 1 ? *total : reshape(*total, {R, K, 1});
      factors = exp(all);
      if (starts)
        factors = where(broadcastLike(lastStart() < zeroLike(lastStart()), *factors), *factors);
    } else if (starts) {
      factors = where(lastStart() < zeroLike(lastStart()), constantLike(castTo(lastStart(), q32()), 1.0));
    }
    SmallVector<Expr> updates;
    for (int64_t n = 0; n < N; ++n) {
      auto ofChunk = [&](const Expr &x) { return rows(x, n * heads, heads); };
      Expr added = ofChunk(update);
      if (state && removed)
        added = added - matmul(ofChunk(*removed), *state);
      Expr change = matmul(ofChunk(toState), added, true, false);
      before.push_back(state ? *state : zeroLike(change));
      updates.push_back(added);
      if (!state)
        state = change;
      else
        state = (factors ? *state * broadcastLike(ofChunk(*factors), *state) : *state) + change;
    }
    if (removed)
      update = concat(updates, 0);
    return *state;
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
  SmallVector<Expr> before;                ///< (B * H, K, V) for each chunk
};

} // namespace

FailureOr<SmallVector<Value>> LinearAttentionOp::decompose(OpBuilder &builder) {
  if (std::optional<SmallVector<Value>> scan = asSelectiveScan(*this, builder))
    return std::move(*scan);
  return Chunks(*this, builder).run();
}

FailureOr<SmallVector<Value>> CausalConvolutionOp::decompose(OpBuilder &builder) {
  Expr place(builder, getLoc(), getX()), x = place, weight = transpose(place.with(getWeight()), {1, 0});
  const int64_t B = x.dim(0), T = x.dim(1), C = x.dim(2), k = weight.dim(0);
  if (getPast())
    x = concat({place.with(getPast()), x}, 1);
  else
    x = padded(x, {0, k - 1, 0}, {B, T + k - 1, C});
  x = widen(x);
  std::optional<Expr> sum, start;
  if (getDocumentStarts())
    start = broadcast(reshape(place.with(getDocumentStarts()), {B, T, 1}), {B, T, C});
  for (int64_t tap = 0; tap < k; ++tap) {
    Expr there = slice(x, {0, tap, 0}, {B, T, C});
    if (const int64_t back = k - 1 - tap; start && back) {
      Expr position = indexAlong(place, {B, T, C}, 1) - constantLike(*start, double(back));
      there = where(position >= *start, there);
    }
    Expr factor = widen(reshape(slice(weight, {tap, 0}, {1, C}), {1, 1, C}));
    Expr term = there * broadcastLike(factor, there);
    sum = sum ? *sum + term : term;
  }
  if (getBias())
    sum = *sum + broadcastLike(reshape(widen(place.with(getBias())), {1, 1, C}), *sum);
  return SmallVector<Value>{castTo(*sum, place.elementType()).value()};
}
