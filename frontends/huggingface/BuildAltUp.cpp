// Blocks of several residual streams (AltUp), as transformers' Gemma3nTextAltUp computes them. Streams are one value,
// (B, S, streams, hidden).
#include "frontends/huggingface/BuildDecoder.h"
#include <cmath>

namespace ztc::huggingface {

using Value = GraphWriter::Value;

/// One of the streams, (B, S, hidden).
Value DecoderBuilder::stream(Value streams, int64_t index) {
  Value one = graph.add("Slice", {streams, graph.integers({index}), graph.integers({index + 1}), graph.integers({2})});
  return reshape(one, {0, 0, decoder.hidden});
}

/// `x` with the root mean square, along the last dimension, of `like`.
Value DecoderBuilder::atMagnitudeOf(Value like, Value x) {
  auto square = [&](Value of) { return graph.add("ReduceMean", {graph.add("Mul", {of, of}), graph.integers({-1})}); };
  Value target = root(square(like));
  Value own = graph.add("Sqrt", {graph.add("Max", {square(x), graph.scalar(1e-5f)})});
  return graph.add("Div", {graph.add("Mul", {x, target}), own});
}

/// Embedded tokens, and projections of them as large as they are.
Value DecoderBuilder::streamsOf(Value embedded) {
  std::vector<Value> parts{embedded};
  for (int64_t i = 1; i < decoder.altUp->streams; ++i) {
    std::string module = decoder.base + "altup_projections." + std::to_string(i - 1);
    parts.push_back(
        atMagnitudeOf(embedded, linear(module, embedded, decoder.hidden, decoder.hidden, /*hasBias=*/false)));
  }
  for (Value &part : parts)
    part = graph.add("Unsqueeze", {part, graph.integers({2})});
  return graph.add("Concat", parts, {{"axis", int64_t(2)}});
}

/// The mean of the first stream and of projections of the others, as large as it is.
Value DecoderBuilder::joined(Value streams) {
  graph.setScope("");
  Value first = stream(streams, 0), sum = first;
  for (int64_t i = 1; i < decoder.altUp->streams; ++i) {
    std::string module = decoder.base + "altup_unembed_projections." + std::to_string(i - 1);
    graph.setScope(checkpoint.ownName(module));
    Value part = linear(module, stream(streams, i), decoder.hidden, decoder.hidden, /*hasBias=*/false);
    sum = graph.add("Add", {sum, atMagnitudeOf(first, part)});
  }
  graph.setScope("");
  return graph.add("Div", {sum, graph.scalar(float(decoder.altUp->streams))});
}

/// (B, S, streams): what coefficients are a linear function of.
Value DecoderBuilder::modalities(const std::string &path, Value x) {
  x = scaled(norm(inside(path, "router_norm"), x, decoder.hidden, decoder.norm), 1 / double(decoder.hidden));
  x = linear(inside(path, "modality_router"), x, decoder.hidden, decoder.altUp->streams, /*hasBias=*/false);
  return graph.add("Tanh", {x});
}

/// A residual that is learned: x and a projection of it through a narrow layer.
Value DecoderBuilder::augmentedResidual(const std::string &path, Value x) {
  int64_t rank = decoder.altUp->residualRank;
  Value narrow = linear(inside(path, "linear_left"), x, decoder.hidden, rank, /*hasBias=*/false);
  Value wide = linear(inside(path, "linear_right"), narrow, rank, decoder.hidden, /*hasBias=*/false);
  wide = norm(inside(path, "post_laurel_norm"), wide, decoder.hidden, decoder.norm);
  graph.setScope(checkpoint.ownName(path));
  return graph.add("Add", {x, wide});
}

Value DecoderBuilder::blockOfStreams(const Layer &layer, const std::string &path, Value streams, Value inputs,
                                     int64_t index) {
  const AltUp &a = *decoder.altUp;
  const BlockNames &names = decoder.names;
  const std::string own = inside(path, "altup"), scope = checkpoint.ownName(path);
  auto normed = [&](const std::string &name, Value x) {
    return norm(inside(path, name), x, decoder.hidden, decoder.norm);
  };
  graph.setScope(scope);
  Value known = modalities(own, stream(streams, a.active));
  Value all = linear(inside(own, "prediction_coefs"), known, a.streams, a.streams * a.streams, /*hasBias=*/false);
  graph.setScope(checkpoint.ownName(own));
  Value sums = graph.add("MatMul", {reshape(all, {0, 0, a.streams, a.streams}), streams});
  Value predicted = graph.add("Add", {sums, streams}), active = stream(predicted, a.active);

  Value in = normed(names.attentionNorm, active);
  Value residual = augmentedResidual(inside(path, "laurel"), in);
  Value seen = normed(names.afterAttentionNorm, attention(layer, inside(path, names.attention), in));
  graph.setScope(scope);
  Value x = graph.add("Add", {graph.add("Add", {active, seen}), residual});
  x = graph.add("Div", {x, graph.scalar(float(std::sqrt(2.0)))});
  Value thought = feedForward(layer, path, x, normed(names.feedForwardNorm, x));
  thought = normed(names.afterFeedForwardNorm, thought);
  graph.setScope(scope);
  x = graph.add("Add", {x, thought});

  Value wanted = linear(inside(own, "correction_coefs"), modalities(own, x), a.streams, a.streams, /*hasBias=*/false);
  graph.setScope(checkpoint.ownName(own));
  wanted = graph.add("Unsqueeze", {graph.add("Add", {wanted, graph.scalar(1)}), graph.integers({-1})});
  Value news = graph.add("Unsqueeze", {graph.add("Sub", {x, active}), graph.integers({2})});
  Value corrected = graph.add("Add", {graph.add("Mul", {news, wanted}), predicted});
  Value first = stream(corrected, a.active);
  if (a.scalesCorrected)
    first = graph.add("Mul", {first, parameter(inside(own, "correct_output_scale"), {decoder.hidden})});
  Value more = fromLayerInput(layer, path, first, inputs, index);
  graph.setScope(scope);
  std::vector<float> isOther(size_t(a.streams), 1); // the first stream is not added to
  isOther[0] = 0;
  more = graph.add("Mul", {graph.add("Unsqueeze", {more, graph.integers({2})}), graph.floats(isOther, {a.streams, 1})});
  return graph.add("Add", {corrected, more});
}

} // namespace ztc::huggingface
