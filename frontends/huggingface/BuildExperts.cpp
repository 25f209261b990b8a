// Mixtures of experts: every expert sees every token, and its share weighs what it adds.
#include "frontends/huggingface/BuildDecoder.h"
#include <cmath>
#include <limits>

namespace ztc::huggingface {

using Value = GraphWriter::Value;

/// Whether the checkpoint has it under one of the other names: then in the form of transformers' own modules.
bool DecoderBuilder::isRenamed(const std::string &name) const {
  return checkpoint.hasWeights() && !checkpoint.ownName(name).ends_with(name.substr(decoder.base.size()));
}

/// (B, S, E): what the choice is made by; experts of groups that take no part are out of reach.
Value DecoderBuilder::choice(const Experts &e, const std::string &path, Value shares) {
  const std::string bias = inside(path, decoder.names.choiceBias);
  const bool lacksBias = e.choiceBiasMayLack && checkpoint.hasWeights() && !checkpoint.has(bias);
  if (e.hasChoiceBias && !lacksBias) {
    std::vector<int64_t> shape{e.count + e.identities};
    const int64_t rows = e.choiceBiasRows > 1 && isRenamed(bias) ? 1 : e.choiceBiasRows;
    if (rows)
      shape.insert(shape.begin(), rows);
    const std::string own = checkpoint.ownName(bias); // which Kolibri's checkpoints have in a module of its own
    graph.setScope(own.substr(0, own.rfind('.')));
    Value rowOf = parameter(bias, shape);
    if (rows > 1)
      rowOf = graph.add("Gather", {rowOf, graph.integer(0)}, {{"axis", int64_t(0)}});
    shares = graph.add("Add", {shares, rowOf});
    graph.setScope(checkpoint.ownName(path));
  }
  if (e.groups <= 1 || e.chosenGroups >= e.groups)
    return shares;
  Value grouped = reshape(shares, {0, 0, e.groups, e.count / e.groups});
  Value best = graph.addMany("TopK", {grouped, graph.integers({e.groupSummands})}, 2, {{"axis", int64_t(-1)}})[0];
  Value scores = graph.add("ReduceSum", {best, graph.integers({-1})}, {{"keepdims", int64_t(0)}});
  Value chosen = graph.addMany("TopK", {scores, graph.integers({e.chosenGroups})}, 2, {{"axis", int64_t(-1)}})[1];
  Value none = graph.add("Sub", {scores, scores});
  Value one = graph.add("Expand", {graph.scalar(1), graph.add("Shape", {chosen})});
  Value takesPart = graph.add("ScatterElements", {none, chosen, one}, {{"axis", int64_t(-1)}});
  takesPart = graph.add("Greater", {graph.add("Unsqueeze", {takesPart, graph.integers({-1})}), graph.scalar(0)});
  const bool isOut = e.router == Experts::Router::SigmoidThenTop && !e.outsideIsZero;
  Value outside = graph.scalar(isOut ? -std::numeric_limits<float>::infinity() : 0);
  return reshape(graph.add("Where", {takesPart, grouped, outside}), {0, 0, e.count});
}

/// Zeros of this value's shape, through which no gradient goes.
Value DecoderBuilder::zerosLike(Value x) {
  return graph.add("Expand", {graph.scalar(0), graph.add("Shape", {x})});
}

/// (B, S, E): shares of two experts, one after the other. Each is the softmax of the best among those whose scores are
/// near it; for the second the first is out of reach.
Value DecoderBuilder::nearShares(const Experts &e, Value logits) {
  Value none = zerosLike(logits), outside = graph.scalar(-std::numeric_limits<float>::infinity());
  Value size = graph.add("Abs", {logits}), left = logits, sum;
  for (int i = 0; i < 2; ++i) {
    std::vector<Value> best = graph.addMany("TopK", {left, graph.integers({1})}, 2, {{"axis", int64_t(-1)}});
    Value behind = graph.add("Div", {graph.add("Sub", {best[0], logits}), graph.add("Max", {size, best[0]})});
    Value isFar = graph.add("Greater", {behind, graph.scalar(float(e.nearness))});
    Value all = graph.add("Softmax", {graph.add("Where", {isFar, outside, left})}, {{"axis", int64_t(-1)}});
    Value share = graph.add("GatherElements", {all, best[1]}, {{"axis", int64_t(-1)}});
    Value placed = graph.add("ScatterElements", {none, best[1], share}, {{"axis", int64_t(-1)}});
    sum = i ? graph.add("Add", {sum, placed}) : placed;
    if (i == 0) {
      Value gone = graph.add("Expand", {outside, graph.add("Shape", {best[1]})});
      left = graph.add("ScatterElements", {logits, best[1], gone}, {{"axis", int64_t(-1)}});
    }
  }
  return sum;
}

/// What a router with a scale of its own reads.
Value DecoderBuilder::scaledForRouter(const std::string &path, Value x) {
  x = norm(path, x, decoder.hidden, {NormKind::RmsPlain, decoder.norm.epsilon});
  x = graph.add("Mul", {x, parameter(inside(path, decoder.names.routerScale), {decoder.hidden})});
  return scaled(x, 1 / std::sqrt(double(decoder.hidden)));
}

/// (B, S, E): the share of each expert, 0 where it was not chosen.
Value DecoderBuilder::shares(const Experts &e, const std::string &path, Value x) {
  using Precision = Experts::Precision;
  using Width = GraphWriter::Width;
  graph.setWidth(e.precision == Precision::Weight    ? Width::Parameters
                 : e.precision == Precision::Product ? Width::Wide
                                                     : Width::Policy);
  if (!decoder.names.routerScale.empty())
    x = scaledForRouter(path, x);
  const std::string router = inside(path, decoder.names.router), matrix = router + ".weight";
  const bool isTransposed = e.routerIsTransposed && !isRenamed(matrix);
  Value logits = isTransposed ? graph.add("MatMul", {x, parameter(matrix, {decoder.hidden, e.count})})
                              : linear(router, x, decoder.hidden, e.count + e.identities, e.routerBias);
  graph.setWidth(e.precision == Precision::Narrow ? Width::Policy : Width::Wide);
  logits = scaled(logits, e.productScale);
  if (e.routerSoftCap > 0)
    logits = softCapped(logits, e.routerSoftCap);
  if (e.router == Experts::Router::SparseMixer)
    return nearShares(e, logits);
  bool isLate = e.router == Experts::Router::TopThenSoftmax || e.router == Experts::Router::TopThenSigmoid;
  Value all = logits;
  if (e.router == Experts::Router::SigmoidThenTop)
    all = graph.add("Sigmoid", {logits});
  else if (!isLate)
    all = graph.add("Softmax", {logits}, {{"axis", int64_t(-1)}});
  graph.setScope(checkpoint.ownName(path));
  Value by = choice(e, path, all);
  std::vector<Value> top = graph.addMany("TopK", {by, graph.integers({e.perToken})}, 2, {{"axis", int64_t(-1)}});
  Value chosen = by == all ? top[0] : graph.add("GatherElements", {all, top[1]}, {{"axis", int64_t(-1)}});
  if (e.router == Experts::Router::TopThenSigmoid)
    chosen = graph.add("Sigmoid", {chosen});
  else if (isLate)
    chosen = graph.add("Softmax", {chosen}, {{"axis", int64_t(-1)}});
  if (e.normalised) {
    Value sum = graph.add("ReduceSum", {chosen, graph.integers({-1})}, {{"keepdims", int64_t(1)}});
    if (e.normalisedFrom > 0)
      sum = graph.add("Add", {sum, graph.scalar(float(e.normalisedFrom))});
    if (e.normalisedLeast > 0)
      sum = graph.add("Max", {sum, graph.scalar(float(e.normalisedLeast))});
    chosen = graph.add("Div", {chosen, sum});
  }
  chosen = scaled(chosen, e.scale);
  if (e.sharesAreRounded)
    graph.setWidth(Width::Policy);
  Value none = zerosLike(logits);
  Value placed = graph.add("ScatterElements", {none, top[1], chosen}, {{"axis", int64_t(-1)}});
  if (decoder.names.expertScale.empty())
    return placed;
  return graph.add("Mul", {placed, parameter(inside(path, decoder.names.expertScale), {e.count})});
}

/// An expert without a gate; `own`: what all of them are below. A program that saves transformers' state_dict() leaves
/// them as tensors of three dimensions.
Value DecoderBuilder::plainExpert(const Layer &layer, const std::string &own, int64_t index, Value x) {
  const FeedForward &f = layer.feedForward;
  const BlockNames &names = decoder.names;
  const std::string module = inside(own, std::to_string(index));
  const int64_t width = f.experts->narrowWidth ? f.experts->narrowWidth : decoder.hidden;
  auto product = [&](const std::string &name, Value of, int64_t in, int64_t out) {
    if (!checkpoint.has(inside(own, name)))
      return linear(inside(module, name), of, in, out, false);
    Value one = graph.add("Gather", {parameter(inside(own, name), {f.experts->count, out, in}), graph.integer(index)},
                          {{"axis", int64_t(0)}});
    return graph.add("MatMul", {of, graph.add("Transpose", {one}, {{"perm", std::vector<int64_t>{1, 0}}})});
  };
  Value y = product(names.expertUp, x, width, f.width);
  graph.setScope(checkpoint.ownName(module));
  return product(names.expertDown, activate(f.activation, own, y), f.width, width);
}

Value DecoderBuilder::gatedExpert(const Layer &layer, const std::string &path, int64_t index, Value x) {
  const FeedForward &f = layer.feedForward;
  const BlockNames &names = decoder.names;
  const int64_t hidden = f.experts->narrowWidth ? f.experts->narrowWidth : decoder.hidden;
  std::string own = inside(path, names.experts), module = inside(own, std::to_string(index));
  // Programs that quantise linear modules make one of each expert's matrices, whatever the model type has.
  const bool isOneByOne = checkpoint.has(inside(module, names.expertGate) + ".weight");
  if (!isOneByOne && (names.expertsAreStacked || checkpoint.has(inside(path, names.expertsGateUp)))) {
    graph.setScope(checkpoint.ownName(own));
    auto matrix = [&](const std::string &name, int64_t out, int64_t in) {
      // transformers has rows there for those that hand on what they read.
      int64_t count = f.experts->count + (name == names.expertsGateUp ? f.experts->identities : 0);
      // A program that saves transformers' state_dict() leaves them in the form that all other model types have.
      bool isPlain =
          !names.expertsAreTransposed || (in != out && checkpoint.hasShape(inside(path, name), {count, out, in}));
      std::vector<int64_t> shape =
          isPlain ? std::vector<int64_t>{count, out, in} : std::vector<int64_t>{count, in, out};
      Value one =
          graph.add("Gather", {parameter(inside(path, name), shape), graph.integer(index)}, {{"axis", int64_t(0)}});
      return isPlain ? graph.add("Transpose", {one}, {{"perm", std::vector<int64_t>{1, 0}}}) : one;
    };
    std::vector<Value> parts =
        split(graph.add("MatMul", {x, matrix(names.expertsGateUp, 2 * f.width, hidden)}), {f.width, f.width});
    Value y = gatedProduct(f, own, parts[0], parts[1]);
    return graph.add("MatMul", {y, matrix(names.expertsDown, hidden, f.width)});
  }
  if (!isOneByOne && names.expertsAreThreeStacks) {
    graph.setScope(checkpoint.ownName(own));
    auto product = [&](const std::string &name, Value of, int64_t in, int64_t out) {
      Value one = graph.add(
          "Gather", {parameter(inside(own, name) + ".weight", {f.experts->count, out, in}), graph.integer(index)},
          {{"axis", int64_t(0)}});
      return graph.add("MatMul", {of, graph.add("Transpose", {one}, {{"perm", std::vector<int64_t>{1, 0}}})});
    };
    Value gate = product(names.expertGate, x, hidden, f.width), up = product(names.expertUp, x, hidden, f.width);
    return product(names.expertDown, gatedProduct(f, own, gate, up), f.width, hidden);
  }
  if (names.expertsAreRows) {
    graph.setScope(checkpoint.ownName(own));
    auto matrix = [&](const std::string &name) {
      Value all = parameter(inside(own, name), {f.experts->count * f.width, hidden});
      return graph.add("Gather", {reshape(all, {f.experts->count, f.width, hidden}), graph.integer(index)},
                       {{"axis", int64_t(0)}});
    };
    auto product = [&](const std::string &name) {
      Value inputsFirst = graph.add("Transpose", {matrix(name)}, {{"perm", std::vector<int64_t>{1, 0}}});
      return graph.add("MatMul", {x, inputsFirst});
    };
    Value gate = activate(f.activation, own, product(names.expertGate));
    return graph.add("MatMul", {graph.add("Mul", {gate, product(names.expertUp)}), matrix(names.expertDown)});
  }
  if (!f.isGated)
    return plainExpert(layer, own, index, x);
  Value gate = linear(inside(module, names.expertGate), x, hidden, f.width, false),
        up = linear(inside(module, names.expertUp), x, hidden, f.width, false);
  graph.setScope(checkpoint.ownName(module));
  Value y = gatedProduct(f, own, gate, up);
  return linear(inside(module, names.expertDown), y, f.width, hidden, false);
}

/// gpt-oss: gate and up alternate in the columns of a matrix (E, H, 2 F), both are clamped, (up + 1) is multiplied.
Value DecoderBuilder::clampedExpert(const Layer &layer, const std::string &path, int64_t index, Value x) {
  const FeedForward &f = layer.feedForward;
  std::string own = inside(path, decoder.names.experts);
  graph.setScope(checkpoint.ownName(own));
  auto one = [&](const std::string &name, std::vector<int64_t> shape) {
    shape.insert(shape.begin(), f.experts->count);
    return graph.add("Gather", {parameter(inside(own, name), shape), graph.integer(index)}, {{"axis", int64_t(0)}});
  };
  Value both = graph.add("Add", {graph.add("MatMul", {x, one("gate_up_proj", {decoder.hidden, 2 * f.width})}),
                                 one("gate_up_proj_bias", {2 * f.width})});
  auto every2 = [&](int64_t first) {
    return graph.add("Slice", {both, graph.integers({first}), graph.integers({std::numeric_limits<int64_t>::max()}),
                               graph.integers({-1}), graph.integers({2})});
  };
  Value y = gatedProduct(f, own, every2(0), every2(1));
  return graph.add("Add", {graph.add("MatMul", {y, one("down_proj", {f.width, decoder.hidden})}),
                           one("down_proj_bias", {decoder.hidden})});
}

/// The expert that sees every token; `path`: what its name is below.
Value DecoderBuilder::sharedExpert(const FeedForward &f, const std::string &path, Value x) {
  FeedForward shared = f;
  shared.experts.reset();
  shared.width = f.experts->sharedWidth;
  shared.activatedLimit = f.experts->sharedLimit;
  Value y = dense(shared, inside(path, decoder.names.sharedExpert), x);
  if (!f.experts->sharedHasGate)
    return y;
  Value gate = linear(inside(path, decoder.names.sharedGate), x, decoder.hidden, 1, false);
  return graph.add("Mul", {graph.add("Sigmoid", {gate}), y});
}

/// What the experts say, each times its share `weights` (B, S, E).
Value DecoderBuilder::weighted(const Layer &layer, const std::string &path, Value weights, Value x) {
  const Experts &e = *layer.feedForward.experts;
  Value sum;
  const bool isWide = e.precision != Experts::Precision::Narrow && !e.sharesAreRounded;
  for (int64_t i = 0; i < e.count; ++i) {
    graph.setScope(checkpoint.ownName(path));
    graph.setWidth(isWide ? GraphWriter::Width::Wide : GraphWriter::Width::Policy);
    Value share = graph.add("Slice", {weights, graph.integers({i}), graph.integers({i + 1}), graph.integers({-1})});
    graph.setWidth(GraphWriter::Width::Policy);
    Value read = e.sharesScaleInputs ? graph.add("Mul", {x, share}) : x;
    Value y = e.gateAlternates ? clampedExpert(layer, path, i, read) : gatedExpert(layer, path, i, read);
    if (e.resultNorm)
      y = norm(inside(path, decoder.names.resultNorm), y, e.narrowWidth ? e.narrowWidth : decoder.hidden,
               *e.resultNorm);
    graph.setScope(checkpoint.ownName(path));
    if (!e.sharesScaleInputs)
      y = graph.add("Mul", {y, share});
    sum = i ? graph.add("Add", {sum, y}) : y;
  }
  if (!e.identities)
    return sum;
  graph.setWidth(isWide ? GraphWriter::Width::Wide : GraphWriter::Width::Policy);
  Value handedOn = graph.add(
      "Slice", {weights, graph.integers({e.count}), graph.integers({e.count + e.identities}), graph.integers({-1})});
  handedOn = graph.add("ReduceSum", {handedOn, graph.integers({-1})}, {{"keepdims", int64_t(1)}});
  graph.setWidth(GraphWriter::Width::Policy);
  return graph.add("Add", {sum, graph.add("Mul", {x, handedOn})});
}

/// The experts that were chosen and the one that sees every token, of one input.
Value DecoderBuilder::experts(const Layer &layer, const std::string &block, const std::string &path, Value x) {
  const Experts &e = *layer.feedForward.experts;
  Value weights = shares(e, path, x), read = x;
  if (e.narrowWidth)
    read = linear(inside(path, decoder.names.narrow), x, decoder.hidden, e.narrowWidth, e.narrowBias);
  if (e.narrowNorm)
    read = norm(inside(path, decoder.names.narrowNorm), read, e.narrowWidth, *e.narrowNorm);
  Value sum = weighted(layer, path, weights, read);
  if (e.narrowWidth)
    sum = linear(inside(path, decoder.names.widen), sum, e.narrowWidth, decoder.hidden, e.narrowBias);
  if (!decoder.names.mixtureBias.empty())
    sum = graph.add("Add", {sum, parameter(inside(path, decoder.names.mixtureBias), {decoder.hidden})});
  if (!e.sharedWidth)
    return sum;
  Value shared = sharedExpert(layer.feedForward, decoder.names.sharedIsBeside ? block : path, x);
  graph.setScope(checkpoint.ownName(path));
  sum = graph.add("Add", {sum, shared});
  return scaled(sum, e.sharedIsAveraged ? 0.5 : 1);
}

/// The same with norms of their own: `x` is the block's input of this half, `normed` what the shared expert reads.
Value DecoderBuilder::normedExperts(const Layer &layer, const std::string &block, const std::string &path, Value x,
                                    Value normed) {
  const BlockNames &names = decoder.names;
  auto normedBy = [&](const std::string &name, Value value) {
    return norm(inside(block, name), value, decoder.hidden, decoder.norm);
  };
  Value shared = normedBy(names.afterSharedNorm, sharedExpert(layer.feedForward, block, normed));
  Value weights = shares(*layer.feedForward.experts, path, x);
  Value sum = normedBy(names.afterExpertsNorm, weighted(layer, path, weights, normedBy(names.expertsNorm, x)));
  graph.setScope(checkpoint.ownName(path));
  return graph.add("Add", {shared, sum});
}

} // namespace ztc::huggingface
