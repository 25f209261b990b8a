// Multi-head latent attention: DeepSeek-V2 and V3, MiniCPM3.
#include "frontends/huggingface/BuildDecoder.h"

namespace ztc::huggingface {

using Value = GraphWriter::Value;

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
  std::vector<Value> queries = split(inHeads(query, a.heads, width), {l.plainWidth, l.turningWidth});
  query = scaledByPosition(a, joined(queries[0], turned(layer, queries[1], l.turningWidth)));

  Value compressed = linear(inside(path, "kv_a_proj_with_mqa"), x, hidden, l.keyRank + l.turningWidth, a.queryBias);
  std::vector<Value> low = split(compressed, {l.keyRank, l.turningWidth});
  Value narrow = scaled(norm(inside(path, "kv_a_layernorm"), low[0], l.keyRank, *a.headNorm), l.keyScale);
  Value expanded = linear(inside(path, "kv_b_proj"), narrow, l.keyRank, a.heads * (l.plainWidth + l.valueWidth), false);
  std::vector<Value> both =
      split(inHeads(expanded, a.heads, l.plainWidth + l.valueWidth), {l.plainWidth, l.valueWidth});
  if (l.normsTurningKey)
    low[1] = norm(inside(path, "k_rope_only_layernorm"), low[1], l.turningWidth, *a.headNorm);
  // Repeated for all heads first: keys then turn in the form in which queries do.
  Value shared = graph.add("Expand", {inHeads(low[1], 1, l.turningWidth), graph.integers({1, a.heads, 1, 1})});
  shared = turned(layer, shared, l.turningWidth);
  Value y = scores(layer, path, query, joined(both[0], shared), both[1]);
  y = graph.add("Transpose", {y}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
  int64_t wide = a.heads * l.valueWidth;
  y = reshape(y, {0, 0, wide});
  y = gated(a, path, x, y, l.valueWidth);
  if (!gate.empty())
    y = graph.add("Mul", {y, gate});
  return linear(inside(path, decoder.names.output), y, wide, hidden, a.outputBias);
}

} // namespace ztc::huggingface
