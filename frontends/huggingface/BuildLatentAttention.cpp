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

  Value query;
  if (l.queryRank) {
    Value low = linear(inside(path, "q_a_proj"), x, hidden, l.queryRank, a.queryBias);
    low = norm(inside(path, "q_a_layernorm"), low, l.queryRank, *a.headNorm);
    query = linear(inside(path, "q_b_proj"), low, l.queryRank, a.heads * width, false);
  } else {
    query = linear(inside(path, decoder.names.query), x, hidden, a.heads * width, false);
  }
  std::vector<Value> queries = split(inHeads(query, a.heads, width), {l.plainWidth, l.turningWidth});
  query = scaledByPosition(a, joined(queries[0], turned(layer, queries[1], l.turningWidth)));

  Value compressed = linear(inside(path, "kv_a_proj_with_mqa"), x, hidden, l.keyRank + l.turningWidth, a.queryBias);
  std::vector<Value> low = split(compressed, {l.keyRank, l.turningWidth});
  Value expanded =
      linear(inside(path, "kv_b_proj"), norm(inside(path, "kv_a_layernorm"), low[0], l.keyRank, *a.headNorm), l.keyRank,
             a.heads * (l.plainWidth + l.valueWidth), false);
  std::vector<Value> both =
      split(inHeads(expanded, a.heads, l.plainWidth + l.valueWidth), {l.plainWidth, l.valueWidth});
  // Repeated for all heads first: keys then turn in the form in which queries do.
  Value shared = graph.add("Expand", {inHeads(low[1], 1, l.turningWidth), graph.integers({1, a.heads, 1, 1})});
  shared = turned(layer, shared, l.turningWidth);
  Value y = scores(layer, path, query, joined(both[0], shared), both[1]);
  y = graph.add("Transpose", {y}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
  int64_t wide = a.heads * l.valueWidth;
  return linear(inside(path, decoder.names.output), reshape(y, {0, 0, wide}), wide, hidden, a.outputBias);
}

} // namespace ztc::huggingface
