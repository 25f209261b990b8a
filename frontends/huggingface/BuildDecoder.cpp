#include "frontends/huggingface/BuildDecoder.h"
#include <algorithm>
#include <cmath>
#include <unordered_set>

namespace ztc::huggingface {

using Value = GraphWriter::Value;

Value DecoderBuilder::parameter(const std::string &name, const std::vector<int64_t> &shape, bool isTrained) {
  auto [known, isNew] = parameters.try_emplace(name);
  if (!isNew)
    return known->second;
  StoredTensor tensor = checkpoint.take(name, shape);
  graph.addParameter(tensor, isTrained);
  Value value = tensor.name;
  if (tensor.typeName != "F32")
    value = graph.add("Cast", {value}, {{"to", int64_t(1)}}); // FLOAT
  return known->second = value;
}

Value DecoderBuilder::shapeOfTokens(int64_t width) {
  return graph.add("Concat", {tokensShape, graph.integers({width})}, {{"axis", int64_t(0)}});
}

Value DecoderBuilder::reshape(Value x, const std::vector<int64_t> &shape) {
  return graph.add("Reshape", {x, graph.integers(shape)});
}

std::vector<Value> DecoderBuilder::split(Value x, const std::vector<int64_t> &sizes) {
  std::vector<Value> parts;
  int64_t begin = 0;
  for (int64_t size : sizes) {
    parts.push_back(
        graph.add("Slice", {x, graph.integers({begin}), graph.integers({begin + size}), graph.integers({-1})}));
    begin += size;
  }
  return parts;
}

Value DecoderBuilder::linear(const std::string &module, Value x, int64_t in, int64_t out, bool hasBias) {
  graph.setScope(checkpoint.ownName(module));
  Value weight;
  if (decoder.inputsTransposed)
    weight = parameter(module + ".weight", {in, out});
  else
    weight = graph.add("Transpose", {parameter(module + ".weight", {out, in})}, {{"perm", std::vector<int64_t>{1, 0}}});
  Value y = graph.add("MatMul", {x, weight});
  return hasBias ? graph.add("Add", {y, parameter(module + ".bias", {out})}) : y;
}

Value DecoderBuilder::norm(const std::string &module, Value x, int64_t width, Norm kind) {
  graph.setScope(checkpoint.ownName(module));
  NodeAttribute epsilon{"epsilon", float(kind.epsilon)}, axis{"axis", int64_t(-1)};
  if (kind.kind == NormKind::RmsPlain)
    return graph.add("RMSNormalization", {x, graph.floats(std::vector<float>(width, 1), {width})}, {axis, epsilon});
  if (kind.kind == NormKind::RmsOfScaled) {
    shiftedNorms.insert(module + ".weight");
    Value scale = graph.add("Add", {parameter(module + ".weight", {width}), graph.scalar(1)});
    return norm(module, graph.add("Mul", {x, scale}), width, {NormKind::RmsPlain, kind.epsilon});
  }
  if (kind.kind == NormKind::Rms || kind.kind == NormKind::RmsPlusOne) {
    Value weight = parameter(module + ".weight", {width});
    if (kind.kind == NormKind::RmsPlusOne) {
      shiftedNorms.insert(module + ".weight");
      weight = graph.add("Add", {weight, graph.scalar(1)});
    }
    return graph.add("RMSNormalization", {x, weight}, {axis, epsilon});
  }
  std::vector<Value> inputs{x};
  if (kind.kind == NormKind::LayerPlain)
    inputs.push_back(graph.floats(std::vector<float>(width, 1), {width}));
  else
    inputs.push_back(parameter(module + ".weight", {width}));
  if (kind.kind == NormKind::LayerPlusOne)
    inputs.back() = graph.add("Add", {inputs.back(), graph.scalar(1)});
  if (kind.kind == NormKind::Layer || kind.kind == NormKind::LayerPlusOne)
    inputs.push_back(parameter(module + ".bias", {width}));
  return graph.add("LayerNormalization", inputs, {axis, epsilon});
}

std::vector<FreshValues> DecoderBuilder::freshNorms() const {
  if (shiftedNorms.empty() || decoder.shiftedNormsBeginWithOne) // as all norms do
    return {};
  // What the names of all other parameters end with, part by part.
  std::unordered_set<std::string_view> othersEnds;
  for (const auto &[name, value] : parameters) {
    if (shiftedNorms.count(name))
      continue;
    for (std::string_view end = name;; end.remove_prefix(end.find('.') + 1)) {
      othersEnds.insert(end);
      if (end.find('.') == std::string_view::npos)
        break;
    }
  }
  std::set<std::string> ends;
  for (const std::string &name : shiftedNorms) {
    // "norm.weight", and as many parts before it as tell it from others.
    size_t begin = name.size() - std::string_view(".weight").size();
    do
      begin = begin ? name.rfind('.', begin - 1) : std::string::npos;
    while (begin != std::string::npos && othersEnds.contains(std::string_view(name).substr(begin + 1)));
    ends.insert(begin == std::string::npos ? name : name.substr(begin + 1));
  }
  std::vector<FreshValues> fresh;
  for (const std::string &end : ends)
    fresh.push_back({end, FreshValues::Kind::Constant, {0}});
  return fresh;
}

/// A norm whose result has a gate of `rank`, 0: none. Modules as A.X-K2's checkpoints have them.
Value DecoderBuilder::normWithGate(const std::string &module, Value x, int64_t rank) {
  if (!rank)
    return norm(module, x, decoder.hidden, decoder.norm);
  Value y = norm(inside(module, "norm"), x, decoder.hidden, decoder.norm);
  Value low = linear(inside(module, "W_down"), y, decoder.hidden, rank, false);
  low = activate(Activation::Silu, module, low);
  Value gate = graph.add("Sigmoid", {linear(inside(module, "W_up"), low, rank, decoder.hidden, false)});
  return graph.add("Mul", {y, gate});
}

Value DecoderBuilder::scaled(Value x, double factor) {
  return factor == 1 ? x : graph.add("Mul", {x, graph.scalar(float(factor))});
}

Value DecoderBuilder::softCapped(Value x, double cap) {
  Value small = graph.add("Tanh", {graph.add("Div", {x, graph.scalar(float(cap))})});
  return graph.add("Mul", {small, graph.scalar(float(cap))});
}

/// Rows of the table `module`, (B, S, width), for each token.
Value DecoderBuilder::lookedUp(const std::string &module, Value tokens, int64_t count, int64_t width) {
  std::string name = module + ".weight";
  graph.setScope(checkpoint.ownName(module));
  Value x = graph.add("Gather", {parameter(name, {count, width}), tokens}, {{"axis", int64_t(0)}});
  // The call as PyTorch's exporter notes it, with the row that gets no gradient.
  std::string call = "%embedding : [num_users=1] = call_function[target=torch.ops.aten.embedding.default](args = (%" +
                     exportedName(checkpoint.ownName(name)) + ", %" + tokens;
  if (decoder.padding && *decoder.padding < count && *decoder.padding >= -count)
    call += ", " + std::to_string(*decoder.padding);
  graph.noteCall(call + "), kwargs = {})");
  return x;
}

Value DecoderBuilder::embed(Value tokens) {
  int64_t width = decoder.embeddingWidth ? decoder.embeddingWidth : decoder.hidden;
  Value x =
      scaled(lookedUp(decoder.base + decoder.embedding, tokens, decoder.vocabulary, width), decoder.embeddingScale);
  if (width != decoder.hidden)
    x = linear(decoder.base + decoder.projectIn, x, width, decoder.hidden, false);
  if (decoder.embeddingNorm)
    x = norm(decoder.base + *decoder.embeddingNorm, x, decoder.hidden,
             decoder.embeddingNormKind.value_or(decoder.norm));
  if (decoder.positions.empty() && !decoder.positionsAreWaves)
    return x;
  Value rows = positionRows();
  return graph.add("Add", {x, rows});
}
/// What is added to embedded tokens, (1, S, hidden).
Value DecoderBuilder::positionRows() {
  std::string table = decoder.base + decoder.positions;
  graph.setScope(checkpoint.ownName(table));
  Value rows = graph.add("Unsqueeze", {positions, graph.integers({0})});
  if (decoder.positionOffset)
    rows = graph.add("Add", {rows, graph.integer(decoder.positionOffset)});
  if (decoder.positionsAreWaves) {
    // Sines of half of the dimensions, then cosines, of wavelengths from 2 pi to 10000 times that.
    int64_t half = decoder.hidden / 2, steps = decoder.wavesEndBefore ? half : half - 1;
    std::vector<float> frequencies;
    for (int64_t i = 0; i < half; ++i)
      frequencies.push_back(std::exp(float(i) * float(-std::log(10000.0) / double(steps))));
    Value places = graph.add("Unsqueeze", {graph.add("Cast", {rows}, {{"to", int64_t(1)}}), graph.integers({-1})});
    Value angles = graph.add("Mul", {places, graph.floats(frequencies, {half})});
    return graph.add("Concat", {graph.add("Sin", {angles}), graph.add("Cos", {angles})}, {{"axis", int64_t(-1)}});
  }
  int64_t count = decoder.positionLimit + decoder.positionOffset;
  return graph.add("Gather", {parameter(table + ".weight", {count, decoder.hidden}), rows}, {{"axis", int64_t(0)}});
}

/// `x`: the block's input of this half; `normed`: what it reads.
Value DecoderBuilder::feedForward(const Layer &layer, const std::string &path, Value x, Value normed) {
  const FeedForward &f = layer.feedForward;
  const bool isOther = f.experts && !decoder.names.mixture.empty();
  std::string module = f.experts && decoder.names.mixtureIsBlock
                           ? path
                           : inside(path, isOther ? decoder.names.mixture : decoder.names.feedForward);
  if (!f.experts)
    return dense(f, module, normed);
  return decoder.names.expertsNorm.empty() ? experts(layer, path, module, normed)
                                           : normedExperts(layer, path, module, x, normed);
}

/// The square root, whose gradient at 0 is 0, as that of PyTorch's std is.
Value DecoderBuilder::root(Value square) {
  Value isAbove = graph.add("Greater", {square, graph.scalar(0)});
  Value safe = graph.add("Sqrt", {graph.add("Where", {isAbove, square, graph.scalar(1)})});
  return graph.add("Where", {isAbove, safe, graph.scalar(0)});
}

/// What exceeds mean + cutoff * deviation of its row, which normally distributed numbers do in so many places.
Value DecoderBuilder::sparse(Value x, double cutoff) {
  Value last = graph.integers({-1});
  Value distance = graph.add("Sub", {x, graph.add("ReduceMean", {x, last})});
  Value square = graph.add("ReduceMean", {graph.add("Mul", {distance, distance}), last});
  Value deviation = root(square);
  return graph.add("Relu", {graph.add("Sub", {distance, scaled(deviation, cutoff)})});
}

/// What a gate and the values beside it give.
Value DecoderBuilder::gatedProduct(const FeedForward &f, const std::string &module, Value gate, Value up) {
  if (const double limit = f.experts ? f.experts->gateLimit : 0; limit > 0) {
    gate = graph.add("Min", {gate, graph.scalar(float(limit))});
    up = graph.add("Clip", {up, graph.scalar(float(-limit)), graph.scalar(float(limit))});
  }
  if (!f.clamped) {
    gate = activate(f.activation, module, gate);
    if (const double limit = f.activatedLimit; limit > 0) {
      gate = graph.add("Min", {gate, graph.scalar(float(limit))});
      up = graph.add("Clip", {up, graph.scalar(float(-limit)), graph.scalar(float(limit))});
    }
    return graph.add("Mul", {gate, up});
  }
  Value high = graph.scalar(float(f.clamped->limit)), low = graph.scalar(float(-f.clamped->limit));
  gate = graph.add("Min", {gate, high});
  up = graph.add("Clip", {up, low, high});
  Value glu = graph.add("Mul", {gate, graph.add("Sigmoid", {scaled(gate, f.clamped->alpha)})});
  return graph.add("Mul", {graph.add("Add", {up, graph.scalar(1)}), glu});
}

Value DecoderBuilder::dense(const FeedForward &f, const std::string &module, Value x) {
  int64_t hidden = decoder.hidden;
  Value y;
  if (!f.isGated) {
    y = linear(inside(module, decoder.names.up), x, hidden, f.width, f.bias);
    graph.setScope(checkpoint.ownName(module));
    y = activate(f.activation, module, y);
  } else {
    std::vector<Value> parts;
    if (f.isFused && !checkpoint.has(inside(module, decoder.names.gate) + ".weight")) {
      Value both = linear(inside(module, decoder.names.fusedGate), x, hidden, 2 * f.width, f.bias);
      if (f.lowRank)
        both = graph.add("Add", {both, lowRank(*f.lowRank, inside(module, decoder.names.fusedGate + "_adapter_list"), x,
                                               hidden, 2 * f.width)});
      parts = split(both, {f.width, f.width});
    } else {
      parts = {linear(inside(module, decoder.names.gate), x, hidden, f.width, f.bias),
               linear(inside(module, decoder.names.up), x, hidden, f.width, f.bias)};
    }
    graph.setScope(checkpoint.ownName(module));
    if (f.cutoff)
      parts[0] = sparse(parts[0], *f.cutoff);
    parts[0] = scaled(parts[0], f.gateScale);
    y = gatedProduct(f, module, parts[0], parts[1]);
  }
  return scaled(linear(inside(module, decoder.names.down), y, f.width, hidden, f.bias), f.resultScale);
}

/// Attention, or what the layer has in its place.
Value DecoderBuilder::mixed(const Layer &layer, const std::string &path, Value x) {
  const BlockNames &names = decoder.names;
  if (!layer.convolution && !layer.deltaNet && !layer.stateSpace && !layer.lightning && !layer.scan &&
      !layer.recurrence)
    return attention(layer, inside(path, names.attention), x);
  if (layer.attendsToo) {
    Value seen = attention(layer, inside(path, names.attention), x),
          read = stateSpace(*layer.stateSpace, inside(path, names.stateSpace), x);
    graph.setScope(checkpoint.ownName(path));
    return graph.add("Add", {read, seen});
  }
  keysAndValues.emplace_back(); // none that a later layer might see
  if (layer.convolution)
    return shortConvolution(*layer.convolution, inside(path, names.convolution), x);
  if (layer.scan)
    return selectiveScan(*layer.scan, inside(path, names.stateSpace), x);
  if (layer.recurrence)
    return gatedRecurrence(*layer.recurrence, inside(path, names.stateSpace), x);
  if (layer.lightning)
    return lightningAttention(*layer.lightning, inside(path, names.attention), x);
  return layer.deltaNet ? deltaNet(*layer.deltaNet, inside(path, names.deltaNet), x)
                        : stateSpace(*layer.stateSpace, inside(path, names.stateSpace), x);
}

/// `x` and what a half made of it, `result`, by learned weights that are f32 in every precision.
Value DecoderBuilder::gatedSum(const std::string &module, Value x, Value result) {
  const ResidualGates &gates = *decoder.residualGates;
  graph.setScope(checkpoint.ownName(module));
  graph.setWidth(GraphWriter::Width::Parameters);
  Value logits =
      graph.add("Div", {parameter(inside(module, "gate"), {decoder.hidden}), graph.scalar(float(gates.temperature))});
  Value share = graph.add("Sigmoid", {logits});
  // 1 - share^2, which is (1 - share) * (1 + share).
  Value rest = graph.add(
      "Mul", {graph.add("Sigmoid", {graph.add("Neg", {logits})}), graph.add("Add", {share, graph.scalar(1)})});
  rest = graph.add("Sqrt", {graph.add("Max", {rest, graph.scalar(float(gates.least))})});
  graph.setWidth(GraphWriter::Width::Wide);
  Value kept = graph.add("Mul", {x, rest}), added = graph.add("Mul", {result, share});
  graph.setWidth(GraphWriter::Width::Policy);
  return graph.add("Add", {kept, added});
}

Value DecoderBuilder::block(const Layer &layer, const std::string &path, Value x) {
  const BlockNorms &norms = layer.norms ? *layer.norms : decoder.names;
  auto normed = [&](const std::string &name, Value value, int64_t gateRank = 0) {
    return name.empty() ? value : normWithGate(inside(path, name), value, gateRank);
  };
  auto added = [&](Value to, Value what, HalfSum sum = {}) {
    graph.setScope(checkpoint.ownName(path));
    return graph.add("Add", {scaled(to, sum.residual), scaled(what, decoder.residualScale * sum.result)});
  };
  if (layer.halves != Layer::Halves::Both) {
    const std::string own = layer.sharedBlock ? inside(path, "mamba_decoder") : path;
    Value read = x;
    if (layer.sharedBlock) {
      Value more = sharedBlock(layer, path, x);
      read = graph.add("Add", {x, more});
    }
    Value in =
        norms.attentionNorm.empty() ? read : norm(inside(own, norms.attentionNorm), read, decoder.hidden, decoder.norm);
    return added(x, layer.halves == Layer::Halves::First ? mixed(layer, own, in) : feedForward(layer, path, x, in));
  }
  if (decoder.normsAfterSum) {
    x = normed(norms.attentionNorm, added(x, mixed(layer, path, x)));
    return normed(norms.feedForwardNorm, added(x, feedForward(layer, path, x, x)));
  }
  // What a half gives, by its norm.
  auto result = [&](const std::string &name, Value value, const std::optional<Norm> &kind) {
    return name.empty() ? value : norm(inside(path, name), value, decoder.hidden, kind.value_or(decoder.norm));
  };
  Value in = layer.lacksAttentionNorm ? x : normed(norms.attentionNorm, x, layer.attentionNormGate);
  Value seen = result(norms.afterAttentionNorm, mixed(layer, path, in), decoder.afterAttentionKind);
  if (decoder.isParallel) {
    Value between = norms.feedForwardNorm.empty() ? in : normed(norms.feedForwardNorm, x);
    Value both = graph.add("Add", {seen, feedForward(layer, path, x, between)});
    return added(x, both);
  }
  auto weighed = [&](const std::string &name, Value value) {
    if (name.empty())
      return value;
    graph.setScope(checkpoint.ownName(path));
    return graph.add("Mul", {value, parameter(inside(path, name), {decoder.hidden})});
  };
  const std::optional<ResidualGates> &gates = decoder.residualGates;
  x = gates ? gatedSum(inside(path, gates->attention), x, seen)
            : added(weighed(norms.attentionResidual, decoder.addsToNormed ? in : x), seen, layer.attentionSum);
  Value between = normed(norms.feedForwardNorm, x, layer.feedForwardNormGate),
        thought = feedForward(layer, path, x, between);
  bool isMixture = layer.feedForward.experts && !decoder.names.afterMixtureNorm.empty();
  thought = result(isMixture ? decoder.names.afterMixtureNorm : norms.afterFeedForwardNorm, thought,
                   decoder.afterFeedForwardKind);
  return gates ? gatedSum(inside(path, gates->feedForward), x, thought)
               : added(weighed(norms.feedForwardResidual, decoder.addsToNormed ? between : x), thought,
                       layer.feedForwardSum);
}

/// A block with two attentions (LongCat).
Value DecoderBuilder::blockOfTwo(const Layer &layer, const std::string &path, Value x) {
  const BlockNames &names = decoder.names;
  auto added = [&](Value to, Value what) {
    graph.setScope(checkpoint.ownName(path));
    return graph.add("Add", {to, what});
  };
  Layer mixture = layer;
  mixture.feedForward = *layer.shortcut;
  Value shortcut;
  for (const char *number : {"0", "1"}) {
    Value in = norm(inside(path, inside(names.attentionNorm, number)), x, decoder.hidden, decoder.norm);
    x = added(x, attention(layer, inside(path, inside(names.attention, number)), in));
    Value between = norm(inside(path, inside(names.feedForwardNorm, number)), x, decoder.hidden, decoder.norm);
    if (shortcut.empty())
      shortcut = experts(mixture, path, inside(path, names.mixture), between);
    x = added(x, dense(layer.feedForward, inside(path, inside(names.feedForward, number)), between));
  }
  return added(x, shortcut);
}

Value DecoderBuilder::head(Value x) {
  if (!decoder.finalNorm.empty())
    x = norm(decoder.base + decoder.finalNorm, x, decoder.hidden, decoder.finalNormKind.value_or(decoder.norm));
  if (const std::optional<HeadTransform> &transform = decoder.headTransform) {
    x = linear(transform->dense, x, decoder.hidden, decoder.hidden, transform->bias);
    x = norm(transform->norm, activate(transform->activation, transform->dense, x), decoder.hidden, decoder.norm);
  }
  int64_t width = decoder.embeddingWidth ? decoder.embeddingWidth : decoder.hidden;
  if (width != decoder.hidden)
    x = linear(decoder.base + decoder.projectOut, x, decoder.hidden, width, false);
  std::string matrix = decoder.isTied ? decoder.base + decoder.embedding : decoder.head;
  graph.setScope(checkpoint.ownName(decoder.head));
  graph.setWidth(decoder.headIsWide ? GraphWriter::Width::Parameters : GraphWriter::Width::Policy);
  Value weight = parameter(matrix + ".weight", {decoder.vocabulary, width});
  Value logits = graph.add("MatMul", {x, graph.add("Transpose", {weight}, {{"perm", std::vector<int64_t>{1, 0}}})});
  graph.setWidth(GraphWriter::Width::Policy);
  if (decoder.headBias)
    logits = graph.add("Add", {logits, parameter(decoder.head + ".bias", {decoder.vocabulary})});
  logits = scaled(logits, decoder.logitScale);
  if (decoder.logitDivisor != 1)
    logits = graph.add("Div", {logits, graph.scalar(float(decoder.logitDivisor))});
  return decoder.logitSoftCap ? softCapped(logits, *decoder.logitSoftCap) : logits;
}

/// A block's result times a number that is stored and not trained.
Value DecoderBuilder::scaledBlock(const std::string &path, Value x) {
  graph.setScope(checkpoint.ownName(path));
  return graph.add("Mul", {x, parameter(inside(path, decoder.names.scale), {1}, /*isTrained=*/false)});
}

/// All layers and a norm, below `path`.
Value DecoderBuilder::stack(const std::string &path, Value x, bool hasGradient) {
  for (size_t i = 0; i < decoder.layers.size(); ++i)
    x = block(decoder.layers[i], inside(path, decoder.layersName + "." + std::to_string(i)), x);
  graph.setDetached(!hasGradient);
  x = norm(inside(path, "final_norm"), x, decoder.hidden, decoder.norm);
  graph.setDetached(false);
  return x;
}

/// What both stacks make of embedded tokens, HRM's way.
Value DecoderBuilder::cycled(Value slow) {
  const Cycles &cycles = *decoder.cycles;
  const std::string begin = decoder.base + "z_L_init", own = checkpoint.ownName(begin);
  const std::string scope = own.substr(0, own.rfind('.'));
  graph.setScope(scope);
  Value fast = parameter(begin, {decoder.hidden}, /*isTrained=*/false);
  auto sum = [&](Value one, Value other) {
    graph.setScope(scope);
    return graph.add("Add", {one, other});
  };
  for (int64_t high = 0; high < cycles.high; ++high) {
    for (int64_t low = 0; low < cycles.low; ++low)
      fast = stack(decoder.base + "L_module", sum(slow, fast), cycles.low - low <= cycles.trained[high]);
    slow = stack(decoder.base + "H_module", sum(slow, fast), true);
  }
  return slow;
}

void DecoderBuilder::build() {
  Value tokens = "input_ids";
  graph.addTokens(tokens);
  addPositions(tokens);
  Value x = embed(tokens), inputs = decoder.layerInputs ? layerInputs(tokens, x) : Value();
  embedded = x;
  if (decoder.altUp)
    x = streamsOf(x);
  if (decoder.connections)
    return graph.addLogits(head(connected(x)), decoder.vocabulary);
  if (decoder.cycles)
    return graph.addLogits(head(cycled(x)), decoder.vocabulary);
  for (size_t i = 0; i < decoder.layers.size(); ++i) {
    std::string path = decoder.base + decoder.layersName + "." + std::to_string(i);
    if (decoder.altUp) {
      x = blockOfStreams(decoder.layers[i], path, x, inputs, int64_t(i));
      continue;
    }
    x = decoder.layers[i].shortcut ? blockOfTwo(decoder.layers[i], path, x) : block(decoder.layers[i], path, x);
    if (decoder.layerInputs) {
      Value more = fromLayerInput(decoder.layers[i], path, x, inputs, int64_t(i));
      graph.setScope(checkpoint.ownName(path));
      x = graph.add("Add", {x, more});
    }
    if (!decoder.names.scale.empty())
      x = scaledBlock(path, x);
  }
  graph.addLogits(head(decoder.altUp ? joined(x) : x), decoder.vocabulary);
}

} // namespace ztc::huggingface
