// Multi-head latent attention: DeepSeek-V2 and V3, MiniCPM3.
#include "frontends/huggingface/BuildDecoder.h"

namespace ztc::huggingface {

using Value = GraphWriter::Value;

/// (B, H, S, D), each head by a learned function of the position.
Value DecoderBuilder::scaledByHead(const Attention &a, const std::string &module, Value query) {
  graph.setScope(checkpoint.ownName(module));
  Value next = graph.add("Add", {graph.add("Cast", {positions}, {{"to", int64_t(1)}}), graph.scalar(1)}); // FLOAT
  auto ofHead = [&](const char *name) { return reshape(parameter(inside(module, name), {a.heads}), {a.heads, 1}); };
  Value scale = graph.add("Add", {graph.add("Mul", {ofHead("s"), graph.add("Log", {next})}), ofHead("b")});
  return graph.add("Mul", {query, graph.add("Unsqueeze", {scale, graph.integers({-1})})});
}

/// What keys and values are made of, (B, S, rank), and the part of keys that turns, (B, H, S, width), where there is
/// one: the layer's own, or an earlier layer's.
std::pair<Value, Value> DecoderBuilder::latentKeys(const Layer &layer, const std::string &path, Value x) {
  const Attention &a = layer.attention;
  const Latent &l = *a.latent;
  if (layer.keysOf >= 0) {
    keysAndValues.push_back(keysAndValues[layer.keysOf]);
    return keysAndValues.back();
  }
  Value compressed =
      linear(inside(path, decoder.names.latentDown), x, decoder.hidden, l.keyRank + l.turningWidth, a.queryBias);
  std::vector<Value> low{compressed};
  if (l.turningWidth)
    low = split(compressed, {l.keyRank, l.turningWidth});
  Value narrow = scaled(norm(inside(path, decoder.names.latentNorm), low[0], l.keyRank, *a.headNorm), l.keyScale), all;
  if (l.turningWidth) {
    if (l.normsTurningKey)
      low[1] = norm(inside(path, "k_rope_only_layernorm"), low[1], l.turningWidth, *a.headNorm);
    graph.setScope(checkpoint.ownName(path));
    Value one = graph.add("Transpose", {reshape(low[1], {0, 0, 1, l.turningWidth})},
                          {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
    // Repeated for all heads first: keys then turn in the form in which queries do.
    all = turned(layer, graph.add("Expand", {one, graph.integers({1, a.heads, 1, 1})}), l.turningWidth);
  }
  return keysAndValues.emplace_back(narrow, all);
}

Value DecoderBuilder::latentAttention(const Layer &layer, const std::string &path, Value x) {
  const Attention &a = layer.attention;
  const Latent &l = *a.latent;
  int64_t hidden = decoder.hidden, width = l.plainWidth + l.turningWidth;
  auto inHeads = [&](Value value, int64_t heads, int64_t size) {
    graph.setScope(checkpoint.ownName(path));
    return graph.add("Transpose", {reshape(value, {0, 0, heads, size})}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
  };
  auto joined = [&](Value plain, Value turning) {
    return graph.add("Concat", {plain, turning}, {{"axis", int64_t(-1)}});
  };

  Value query, gate;
  if (l.queryRank) {
    Value raw = linear(inside(path, "q_a_proj"), x, hidden, l.queryRank, a.queryBias);
    Value low = norm(inside(path, "q_a_layernorm"), raw, l.queryRank, *a.headNorm);
    if (l.queriesHaveGates) {
      const int64_t both = width + l.valueWidth;
      Value all = linear(inside(path, "q_b_proj"), joined(low, raw), 2 * l.queryRank, a.heads * both, false);
      std::vector<Value> parts = split(reshape(all, {0, 0, a.heads, both}), {width, l.valueWidth});
      query = reshape(parts[0], {0, 0, a.heads * width});
      gate = graph.add("Sigmoid", {reshape(parts[1], {0, 0, a.heads * l.valueWidth})});
    } else {
      query = linear(inside(path, "q_b_proj"), low, l.queryRank, a.heads * width, false);
    }
  } else {
    query = linear(inside(path, decoder.names.query), x, hidden, a.heads * width, false);
  }
  query = scaled(query, l.queryScale);
  query = inHeads(query, a.heads, width);
  if (l.turningWidth) {
    std::vector<Value> queries = split(query, {l.plainWidth, l.turningWidth});
    query = joined(queries[0], turned(layer, queries[1], l.turningWidth));
  }
  query = scaledByPosition(a, query);
  if (a.learnsQueryScale)
    query = scaledByHead(a, inside(path, decoder.names.queryScale), query);

  const auto [narrow, shared] = latentKeys(layer, path, x);
  Value expanded =
      linear(inside(path, decoder.names.latentUp), narrow, l.keyRank, a.heads * (l.plainWidth + l.valueWidth), false);
  std::vector<Value> both =
      split(inHeads(expanded, a.heads, l.plainWidth + l.valueWidth), {l.plainWidth, l.valueWidth});
  Value key = shared.empty() ? both[0] : joined(both[0], shared);
  Value y = scores(layer, path, query, key, both[1]);
  y = graph.add("Transpose", {y}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
  int64_t wide = a.heads * l.valueWidth;
  y = reshape(y, {0, 0, wide});
  y = gated(a, path, x, y, l.valueWidth);
  if (!gate.empty())
    y = graph.add("Mul", {y, gate});
  return linear(inside(path, decoder.names.output), y, wide, hidden, a.outputBias);
}

} // namespace ztc::huggingface
