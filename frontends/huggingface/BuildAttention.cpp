// Attention: projections, norms per head, rotation, masks, scores.
#include "frontends/huggingface/BuildDecoder.h"
#include "runtime/Core/FloatTypes.h"
#include <cmath>
#include <limits>

namespace ztc::huggingface {

using Value = GraphWriter::Value;

void DecoderBuilder::addPositions(Value tokens) {
  graph.setScope("");
  tokensShape = graph.add("Shape", {tokens});
  Value length = graph.add("Gather", {tokensShape, graph.integer(1)}, {{"axis", int64_t(0)}});
  positions = graph.add("Range", {graph.integer(0), length, graph.integer(1)});
}

/// (width / 2); where they depend on the length of a row, both are in the graph.
Value DecoderBuilder::frequencies(const Rope &rope) {
  Value usual = graph.floats(rope.frequencies, {int64_t(rope.frequencies.size())});
  if (!rope.longFrom)
    return usual;
  Value length = graph.add("Gather", {tokensShape, graph.integer(1)}, {{"axis", int64_t(0)}}), other;
  Value isLong = graph.add("Greater", {length, graph.integer(rope.longFrom)});
  if (rope.dynamicFactor == 0) {
    other = graph.floats(rope.longFrequencies, {int64_t(rope.longFrequencies.size())});
  } else {
    // 1 / (theta * growth^(divisor / (divisor - 2)))^(2i / divisor); short rows would take a root of a negative number.
    Value longest = graph.add("Max", {length, graph.integer(rope.longFrom)});
    Value ratio =
        graph.add("Div", {graph.add("Cast", {longest}, {{"to", int64_t(1)}}), graph.scalar(float(rope.longFrom))});
    Value growth = graph.add("Sub", {graph.add("Mul", {ratio, graph.scalar(float(rope.dynamicFactor))}),
                                     graph.scalar(float(rope.dynamicFactor - 1))});
    double width = double(rope.divisor);
    Value base = graph.add(
        "Mul", {graph.add("Pow", {growth, graph.scalar(float(width / (width - 2)))}), graph.scalar(float(rope.theta))});
    std::vector<float> exponents;
    for (int64_t i = 0; i < rope.divisor; i += 2)
      exponents.push_back(float(i) / float(rope.divisor));
    other = graph.add("Reciprocal", {graph.add("Pow", {base, graph.floats(exponents, {int64_t(exponents.size())})})});
  }
  return graph.add("Where", {isLong, other, usual});
}

DecoderBuilder::Table DecoderBuilder::table(const Rope &rope) {
  graph.setScope("");
  Value rows = graph.add("Unsqueeze", {graph.add("Cast", {positions}, {{"to", int64_t(1)}}), graph.integers({1})});
  Value waves = frequencies(rope);
  if (!rope.exponents.empty()) {
    graph.setWidth(GraphWriter::Width::Parameters);
    Value exponents = parameter(rope.exponents, {int64_t(rope.frequencies.size())}, /*isTrained=*/false);
    waves = graph.add("Mul", {waves, graph.add("Exp", {exponents})});
    graph.setWidth(GraphWriter::Width::Policy);
  }
  Value angles = graph.add("Mul", {rows, waves});
  Value batch = graph.add(
      "Concat", {graph.add("Slice", {tokensShape, graph.integers({0}), graph.integers({1})}), graph.integers({1, 1})},
      {{"axis", int64_t(0)}});
  auto finished = [&](Value x) {
    Value whole = graph.add("Unsqueeze", {scaled(x, rope.scale), graph.integers({0})});
    return graph.add("Expand", {whole, batch});
  };
  return {finished(graph.add("Cos", {angles})), finished(graph.add("Sin", {angles}))};
}

/// (B, H, S, D): the first `width` of D turn.
Value DecoderBuilder::rotate(const Rope &rope, const Table &table, Value x, int64_t headWidth) {
  auto turned = [&](Value part) {
    std::vector<NodeAttribute> attributes;
    if (rope.isInterleaved)
      attributes.push_back({"interleaved", int64_t(1)});
    return graph.add("RotaryEmbedding", {part, table.cosine, table.sine}, attributes);
  };
  if (rope.width == headWidth)
    return turned(x);
  std::vector<Value> parts = split(x, {rope.width, headWidth - rope.width});
  return graph.add("Concat", {turned(parts[0]), parts[1]}, {{"axis", int64_t(-1)}});
}

/// (S, S) bool: who sees whom.
Value DecoderBuilder::mask(const Layer &layer) {
  int64_t window = layer.window;
  auto [known, isNew] = masks.try_emplace({window, layer.windowIsChunk});
  if (!isNew)
    return known->second;
  graph.setScope("");
  Value row = graph.add("Unsqueeze", {positions, graph.integers({1})}),
        column = graph.add("Unsqueeze", {positions, graph.integers({0})});
  Value visible = graph.add("LessOrEqual", {column, row});
  if (window && layer.windowIsChunk)
    visible = graph.add("And", {visible, graph.add("Equal", {graph.add("Div", {column, graph.integer(window)}),
                                                             graph.add("Div", {row, graph.integer(window)})})});
  else if (window)
    visible =
        graph.add("And", {visible, graph.add("Greater", {column, graph.add("Sub", {row, graph.integer(window)})})});
  return known->second = visible;
}

/// (B, Hk, S, D) to (B, H, S, D): each head of keys as often as queries share it.
Value DecoderBuilder::repeated(const Attention &a, Value x, int64_t width) {
  int64_t group = a.heads / a.keyHeads;
  if (group == 1)
    return x;
  Value split = graph.add("Unsqueeze", {x, graph.integers({2})});
  Value wide = graph.add("Expand", {split, graph.integers({1, 1, group, 1, 1})});
  return reshape(wide, {0, a.heads, -1, width});
}

/// (H, 1, S): what ALiBi adds to the scores of each key.
Value DecoderBuilder::alibi(const Attention &a) {
  std::vector<float> slopes;
  for (double slope : a.slopes)
    slopes.push_back(a.slopesAreRounded ? fromBf16(toBf16(float(slope))) : float(slope));
  Value places = graph.add("Cast", {positions}, {{"to", int64_t(1)}}); // FLOAT
  Value heights = graph.add("Mul", {places, graph.floats(slopes, {a.heads, 1, 1})});
  if (!a.slopesAreRounded)
    return heights;
  heights = graph.add("Cast", {heights}, {{"to", int64_t(16)}}); // BFLOAT16
  return scaled(graph.add("Cast", {heights}, {{"to", int64_t(1)}}), a.scale);
}

/// (B, H, 1, S): what is added to the scores of each key for its value, (B, Hk, S, D).
Value DecoderBuilder::keyWeights(const Attention &a, const std::string &path, Value value) {
  const int64_t wide = a.keyHeads * a.headWidth, group = a.heads / a.keyHeads;
  graph.setScope(checkpoint.ownName(path));
  Value rows = graph.add("Transpose", {value}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
  Value steps = linear(inside(path, "dt_proj"), reshape(rows, {0, 0, wide}), wide, a.keyHeads, a.queryBias);
  graph.setScope(checkpoint.ownName(path));
  Value weights = graph.add("Mul", {graph.add("Softplus", {steps}), parameter(inside(path, "A"), {a.keyHeads})});
  weights = graph.add("Transpose", {graph.add("Exp", {weights})}, {{"perm", std::vector<int64_t>{0, 2, 1}}});
  weights = graph.add("Unsqueeze", {weights, graph.integers({2})});
  if (group > 1)
    weights = graph.add("Expand", {weights, graph.integers({1, 1, group, 1})});
  return graph.add("Unsqueeze", {reshape(weights, {0, a.heads, -1}), graph.integers({2})});
}

/// Softmax of scores times values, (B, H, S, D). What the ONNX operator cannot say is written out.
Value DecoderBuilder::scores(const Layer &layer, const std::string &path, Value query, Value key, Value value) {
  const Attention &a = layer.attention;
  if (!a.hasSinks && a.slopes.empty() && !a.valuesWeighKeys) {
    std::vector<Value> inputs{query, key, value};
    if (layer.window)
      inputs.push_back(mask(layer));
    graph.setScope(checkpoint.ownName(path));
    std::vector<NodeAttribute> attributes{{"scale", float(a.scale)}, {"is_causal", int64_t(layer.window ? 0 : 1)}};
    if (a.softCap)
      attributes.push_back({"softcap", float(std::abs(*a.softCap))}); // the operator ignores what is below 0
    return graph.add("Attention", inputs, attributes);
  }
  Value visible = mask(layer), weights = a.valuesWeighKeys ? keyWeights(a, path, value) : Value();
  graph.setScope(checkpoint.ownName(path));
  Value keys = graph.add("Transpose", {repeated(a, key, a.headWidth)}, {{"perm", std::vector<int64_t>{0, 1, 3, 2}}});
  Value x = scaled(graph.add("MatMul", {query, keys}), a.scale);
  if (a.softCap)
    x = softCapped(x, *a.softCap);
  if (!a.slopes.empty()) {
    Value heights = alibi(a);
    x = graph.add("Add", {x, heights});
  }
  if (!weights.empty())
    x = graph.add("Add", {x, weights});
  x = graph.add("Where", {visible, x, graph.scalar(-std::numeric_limits<float>::infinity())});
  if (!a.hasSinks) {
    x = graph.add("Softmax", {x}, {{"axis", int64_t(-1)}});
    return graph.add("MatMul", {x, repeated(a, value, a.valueWidth ? a.valueWidth : a.headWidth)});
  }
  Value sinks = reshape(parameter(inside(path, "sinks"), {a.heads}), {1, a.heads, 1, 1});
  Value column = graph.add("Slice", {x, graph.integers({0}), graph.integers({1}), graph.integers({-1})});
  sinks = graph.add("Expand", {sinks, graph.add("Shape", {column})});
  x = graph.add("Softmax", {graph.add("Concat", {x, sinks}, {{"axis", int64_t(-1)}})}, {{"axis", int64_t(-1)}});
  x = graph.add("Slice", {x, graph.integers({0}), graph.integers({-1}), graph.integers({-1})});
  return graph.add("MatMul", {x, repeated(a, value, a.valueWidth ? a.valueWidth : a.headWidth)});
}

/// Queries, keys and values of Fusion::Shards.
std::vector<Value> DecoderBuilder::shardedProjection(const Attention &a, Value all) {
  int64_t wide = a.heads * a.headWidth, part = wide / kShards;
  std::vector<Value> parts = split(reshape(all, {0, 0, kShards, 3 * part}), {part, part, part});
  for (Value &value : parts)
    value = reshape(value, {0, 0, wide});
  std::swap(parts[1], parts[2]);
  return parts;
}

/// One projection's queries, keys and values, (B, S, heads * width) each.
std::vector<Value> DecoderBuilder::fusedProjection(const Attention &a, const std::string &path, Value x) {
  int64_t wide = a.heads * a.headWidth, narrow = a.keyHeads * a.headWidth, group = a.heads / a.keyHeads;
  std::string module = inside(path, decoder.names.fusedQuery);
  Value all = linear(module, x, decoder.hidden, (a.gateIsFused ? 2 : 1) * wide + 2 * narrow, a.queryBias);
  if (a.gateIsFused) {
    std::vector<Value> parts = split(all, {wide, wide, narrow, narrow});
    return {parts[1], parts[2], parts[3], parts[0]};
  }
  if (a.fusion == Fusion::Blocks)
    return split(all, {wide, narrow, narrow});
  if (a.fusion == Fusion::Shards)
    return shardedProjection(a, all);
  std::vector<Value> parts = split(reshape(all, {0, 0, a.keyHeads, (group + 2) * a.headWidth}),
                                   {group * a.headWidth, a.headWidth, a.headWidth});
  for (int i = 0; i < 3; ++i)
    parts[i] = reshape(parts[i], {0, 0, i ? narrow : wide});
  return parts;
}

/// (B, S, H, D), or (B, H, S, D) after the rotation, which one weight for all heads does not notice.
Value DecoderBuilder::headNorm(const Attention &a, const std::string &module, Value x, int64_t heads) {
  Norm kind = a.headNorm.value_or(decoder.norm);
  if (a.headNorms == HeadNorms::PerHead)
    return norm(module, x, a.headWidth, kind);
  graph.setScope(checkpoint.ownName(module));
  Value weight;
  if (a.headNorms == HeadNorms::OwnPerHead) {
    weight = parameter(module + ".weight", {heads, a.headWidth});
  } else {
    std::vector<Value> rows;
    for (int64_t i = 0; i < heads; ++i)
      rows.push_back(
          reshape(parameter(module + ".norms." + std::to_string(i) + ".weight", {a.headWidth}), {1, a.headWidth}));
    weight = graph.add("Concat", rows, {{"axis", int64_t(0)}});
  }
  Value plain = graph.floats(std::vector<float>(a.headWidth, 1), {a.headWidth});
  Value y = graph.add("LayerNormalization", {x, plain}, {{"axis", int64_t(-1)}, {"epsilon", float(kind.epsilon)}});
  return graph.add("Mul", {y, weight});
}

/// (B, H, S, D), as the layer's rotary embedding turns it.
Value DecoderBuilder::turned(const Layer &layer, Value x, int64_t headWidth) {
  if (layer.rope < 0)
    return x;
  const Rope &rope = decoder.ropes[layer.rope];
  return rotate(rope, tables.at(layer.rope), x, headWidth);
}

Value DecoderBuilder::scaledByPosition(const Attention &a, Value query) {
  if (a.queryScalePower > 0) {
    Value next = graph.add("Add", {graph.add("Cast", {positions}, {{"to", int64_t(1)}}), graph.scalar(1)}); // FLOAT
    Value part = graph.add("Div", {next, graph.scalar(float(a.queryScaleFrom))});
    Value growth = graph.add("Log", {graph.add("Add", {part, graph.scalar(1)})});
    Value scale = graph.add("Exp", {scaled(growth, a.queryScalePower)});
    return graph.add("Mul", {query, graph.add("Unsqueeze", {scale, graph.integers({1})})});
  }
  if (a.queryScaleBeta == 0)
    return query;
  Value place = graph.add("Cast", {positions}, {{"to", int64_t(1)}}); // FLOAT
  if (a.queryScaleShift != 0)
    place = graph.add("Add", {place, graph.scalar(float(a.queryScaleShift))});
  Value step = graph.add("Floor", {graph.add("Div", {place, graph.scalar(float(a.queryScaleFrom))})});
  Value growth = graph.add("Log", {graph.add("Add", {step, graph.scalar(1)})});
  Value scale = graph.add("Add", {scaled(growth, a.queryScaleBeta), graph.scalar(1)});
  return graph.add("Mul", {query, graph.add("Unsqueeze", {scale, graph.integers({1})})});
}

/// The result `y` of attention, (B, S, H * width), times its gate, which reads `x`.
Value DecoderBuilder::gated(const Attention &a, const std::string &path, Value x, Value y, int64_t width) {
  if (a.outputGate == OutputGate::None || a.outputGate == OutputGate::SigmoidOfQueries)
    return y;
  bool isPerHead = a.outputGate == OutputGate::SoftplusPerHead || a.outputGate == OutputGate::SigmoidPerHead,
       isSigmoid = a.outputGate == OutputGate::Sigmoid || a.outputGate == OutputGate::SigmoidPerHead;
  int64_t numbers = isPerHead ? a.heads : a.heads * width;
  Value gate = linear(inside(path, decoder.names.outputGate), x, decoder.hidden, numbers, false);
  graph.setScope(checkpoint.ownName(path));
  if (!decoder.names.outputGateBias.empty()) {
    Value bias = parameter(inside(path, decoder.names.outputGateBias), {a.heads});
    gate = graph.add("Add", {reshape(gate, {0, 0, a.heads, numbers / a.heads}), reshape(bias, {a.heads, 1})});
    gate = reshape(gate, {0, 0, numbers});
  }
  gate = graph.add(isSigmoid ? "Sigmoid" : "Softplus", {gate});
  if (!isPerHead)
    return graph.add("Mul", {y, gate});
  Value heads = reshape(y, {0, 0, a.heads, width});
  return reshape(graph.add("Mul", {heads, graph.add("Unsqueeze", {gate, graph.integers({-1})})}),
                 {0, 0, a.heads * width});
}

/// Queries, keys and values as their projections give them, (B, S, heads * width) each; of a layer that has no keys of
/// its own, queries alone.
std::vector<Value> DecoderBuilder::projections(const Layer &layer, const std::string &path, Value x) {
  const Attention &a = layer.attention;
  const BlockNames &names = decoder.names;
  // A program that saves transformers' state_dict() may leave them apart.
  if (a.fusion != Fusion::None && !checkpoint.has(inside(path, names.query) + ".weight"))
    return fusedProjection(a, path, x);
  const int64_t in = a.inputWidth ? a.inputWidth : decoder.hidden;
  auto projected = [&](const std::string &name, char what, int64_t width) {
    Value y = linear(inside(path, name), x, in, width, a.queryBias);
    if (!a.lowRank)
      return y;
    Value more = lowRank(*a.lowRank, inside(path, std::string("linear_") + what + "_adapter_list"), x, in, width);
    return graph.add("Add", {y, more});
  };
  const bool hasGates = a.outputGate == OutputGate::SigmoidOfQueries;
  std::vector<Value> parts{projected(names.query, 'q', (hasGates ? 2 : 1) * a.heads * a.headWidth)};
  if (layer.keysOf >= 0)
    return parts;
  parts.push_back(projected(names.key, 'k', a.keyHeads * a.headWidth));
  parts.push_back(a.valuesAreKeys
                      ? parts[1]
                      : projected(names.value, 'v', a.keyHeads * (a.valueWidth ? a.valueWidth : a.headWidth)));
  return parts;
}

/// (B, heads, S, D) to (B, heads, S, 2 D): each of the first half beside its like in the second, for both halves of the
/// keys.
Value DecoderBuilder::pairedValues(Value value, int64_t heads) {
  auto half = [&](int64_t from, int64_t to) {
    return graph.add("Slice", {value, graph.integers({from}), graph.integers({to}), graph.integers({1})});
  };
  Value pairs = graph.add("Concat", {half(0, heads / 2), half(heads / 2, heads)}, {{"axis", int64_t(-1)}});
  return graph.add("Concat", {pairs, pairs}, {{"axis", int64_t(1)}});
}

/// (B, S, H, 2 D) to (B, S, H / 2, 2 D), normed: exp(q1 k1) - exp(q2 k2) + start is what the second half counts.
Value DecoderBuilder::difference(const Attention &a, const std::string &path, Value y) {
  auto half = [&](int64_t from, int64_t to) {
    return graph.add("Slice", {y, graph.integers({from}), graph.integers({to}), graph.integers({2})});
  };
  auto learned = [&](const char *query, const char *key) {
    Value product =
        graph.add("Mul", {parameter(inside(path, query), {a.headWidth}), parameter(inside(path, key), {a.headWidth})});
    return graph.add("Exp", {graph.add("ReduceSum", {product, graph.integers({-1})})});
  };
  Value first = half(0, a.heads / 2), second = half(a.heads / 2, a.heads);
  Value weight = graph.add("Sub", {learned("lambda_q1", "lambda_k1"), learned("lambda_q2", "lambda_k2")});
  weight = graph.add("Add", {weight, graph.scalar(float(a.differenceStart))});
  Value rest = graph.add("Sub", {first, graph.add("Mul", {second, weight})});
  return scaled(norm(path, rest, 2 * a.headWidth, {NormKind::RmsPlain, decoder.norm.epsilon}), 1 - a.differenceStart);
}

Value DecoderBuilder::attention(const Layer &layer, const std::string &path, Value x) {
  const Attention &a = layer.attention;
  const BlockNames &names = decoder.names;
  if (layer.rope >= 0 && !tables.count(layer.rope))
    tables[layer.rope] = table(decoder.ropes[layer.rope]);
  if (a.latent)
    return latentAttention(layer, path, x);
  if (a.experts)
    return attentionOfExperts(layer, path, x);
  const int64_t widths[] = {a.headWidth, a.headWidth, a.valueWidth ? a.valueWidth : a.headWidth};
  x = scaled(x, a.inputScale);
  std::vector<Value> parts = projections(layer, path, x), halves;
  if (a.outputGate == OutputGate::SigmoidOfQueries) {
    graph.setScope(checkpoint.ownName(path));
    halves = split(reshape(parts[0], {0, 0, a.heads, 2 * a.headWidth}), {a.headWidth, a.headWidth});
    parts[0] = halves[0];
  }
  Value fusedGate;
  if (parts.size() > 3) {
    fusedGate = parts.back();
    parts.pop_back();
  }
  const std::string *normNames[] = {&names.queryNorm, &names.keyNorm};
  bool hasHeadNorms = a.headNorms != HeadNorms::None && a.headNorms != HeadNorms::Whole;
  for (size_t i = 0; i < parts.size(); ++i) {
    int64_t heads = i ? a.keyHeads : a.heads;
    std::string normName = i < 2 ? inside(path, *normNames[i]) : "";
    if (i < 2 && a.headNorms == HeadNorms::Whole)
      parts[i] = norm(normName, parts[i], heads * a.headWidth, decoder.norm);
    graph.setScope(checkpoint.ownName(path));
    if (a.clip > 0)
      parts[i] = graph.add("Clip", {parts[i], graph.scalar(float(-a.clip)), graph.scalar(float(a.clip))});
    parts[i] = reshape(i == 1 ? scaled(parts[i], a.keyScale) : parts[i], {0, 0, heads, widths[i]});
    if (i < 2 && hasHeadNorms && !a.normsAfterRotation)
      parts[i] = headNorm(a, normName, parts[i], heads);
    if (i == 2 && a.normsValues)
      parts[i] = norm(path, parts[i], widths[i], {NormKind::RmsPlain, decoder.norm.epsilon});
    graph.setScope(checkpoint.ownName(path));
    parts[i] = graph.add("Transpose", {parts[i]}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
    if (i < 2)
      parts[i] = turned(layer, parts[i], a.headWidth);
    if (i == 0)
      parts[i] = scaledByPosition(a, parts[i]);
    if (i < 2 && hasHeadNorms && a.normsAfterRotation)
      parts[i] = headNorm(a, normName, parts[i], heads);
  }
  if (a.differenceStart > 0)
    parts[2] = pairedValues(parts[2], a.keyHeads);
  if (layer.keysOf < 0)
    keysAndValues.emplace_back(parts[1], scaled(parts[2], a.valueScale));
  else
    keysAndValues.push_back(keysAndValues[layer.keysOf]);
  const auto &[keys, values] = keysAndValues.back();
  Value y = scores(layer, path, parts[0], keys, values);
  y = graph.add("Transpose", {y}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
  if (a.differenceStart > 0)
    y = difference(a, path, y);
  if (a.resultNorm)
    y = norm(path, y, widths[2], *a.resultNorm);
  int64_t wide = a.heads * widths[2];
  y = reshape(y, {0, 0, wide});
  y = fusedGate.empty() ? gated(a, path, x, y, widths[2]) : graph.add("Mul", {y, graph.add("Sigmoid", {fusedGate})});
  if (!halves.empty())
    y = graph.add("Mul", {y, graph.add("Sigmoid", {reshape(halves[1], {0, 0, wide})})});
  y = linear(inside(path, names.output), y, wide, decoder.hidden, a.outputBias && names.outputBias.empty());
  graph.setScope(checkpoint.ownName(path));
  if (a.outputBias && !names.outputBias.empty())
    y = graph.add("Add", {y, parameter(inside(path, names.outputBias), {decoder.hidden})});
  return scaled(y, a.resultScale);
}

} // namespace ztc::huggingface
