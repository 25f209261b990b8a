// Attention whose queries and results belong to experts: JetMoE.
#include "frontends/huggingface/BuildDecoder.h"

namespace ztc::huggingface {

using Value = GraphWriter::Value;

/// Each place among a token's experts has queries, the sum of all experts' times 1 where the expert stands there and 0
/// elsewhere; what they saw goes to the expert likewise.
Value DecoderBuilder::attentionOfExperts(const Layer &layer, const std::string &path, Value x) {
  const Attention &a = layer.attention;
  const AttentionExperts &e = *a.experts;
  const int64_t hidden = decoder.hidden, wide = a.keyHeads * a.headWidth, places = e.perToken;
  const std::string own = inside(path, decoder.names.experts);
  const NodeAttribute last{"axis", int64_t(-1)};
  Value logits = linear(inside(own, "router.layer"), x, hidden, e.count, false);
  graph.setScope(checkpoint.ownName(own));
  graph.setWidth(GraphWriter::Width::Wide);
  std::vector<Value> top = graph.addMany("TopK", {logits, graph.integers({places})}, 2, {last});
  Value chosen = graph.add("Softmax", {top[0]}, {last});
  graph.setWidth(GraphWriter::Width::Policy);
  Value none = zerosLike(logits), shares = graph.add("ScatterElements", {none, top[1], chosen}, {last});
  std::vector<Value> stands; // of each place, (B, S, experts)
  for (int64_t place = 0; place < places; ++place) {
    Value index =
        graph.add("Slice", {top[1], graph.integers({place}), graph.integers({place + 1}), graph.integers({-1})});
    Value one = graph.add("Expand", {graph.scalar(1), graph.add("Shape", {index})});
    stands.push_back(graph.add("ScatterElements", {none, index, one}, {last}));
  }
  auto column = [&](Value of, int64_t expert) {
    return graph.add("Slice", {of, graph.integers({expert}), graph.integers({expert + 1}), graph.integers({-1})});
  };
  auto product = [&](const char *name, int64_t expert, Value of, int64_t in, int64_t out) {
    Value one = graph.add("Gather", {parameter(inside(own, name), {e.count, out, in}), graph.integer(expert)},
                          {{"axis", int64_t(0)}});
    return graph.add("MatMul", {of, graph.add("Transpose", {one}, {{"perm", std::vector<int64_t>{1, 0}}})});
  };
  auto addTo = [&](Value &sum, Value what) { sum = sum.empty() ? what : graph.add("Add", {sum, what}); };

  std::vector<Value> queries(places);
  for (int64_t expert = 0; expert < e.count; ++expert) {
    Value query = product("input_linear.weight", expert, x, hidden, wide);
    for (int64_t place = 0; place < places; ++place)
      addTo(queries[place], graph.add("Mul", {query, column(stands[place], expert)}));
  }
  // Heads of queries stand by the head of keys that they share.
  const std::vector<int64_t> byHead{0, 3, 2, 1, 4};
  Value query = reshape(graph.add("Concat", queries, {last}), {0, 0, places, a.keyHeads, a.headWidth});
  query = reshape(graph.add("Transpose", {query}, {{"perm", byHead}}), {0, a.heads, -1, a.headWidth});
  std::vector<Value> both = split(linear(inside(path, "kv_proj"), x, hidden, 2 * wide, false), {wide, wide});
  graph.setScope(checkpoint.ownName(path));
  for (Value &part : both)
    part = graph.add("Transpose", {reshape(part, {0, 0, a.keyHeads, a.headWidth})},
                     {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
  Value y = scores(layer, path, turned(layer, query, a.headWidth), turned(layer, both[0], a.headWidth), both[1]);
  y = graph.add("Transpose", {reshape(y, {0, a.keyHeads, places, -1, a.headWidth})}, {{"perm", byHead}});
  std::vector<Value> seen = split(reshape(y, {0, 0, places * wide}), std::vector<int64_t>(places, wide));

  graph.setScope(checkpoint.ownName(own));
  Value sum;
  for (int64_t expert = 0; expert < e.count; ++expert) {
    Value read;
    for (int64_t place = 0; place < places; ++place)
      addTo(read, graph.add("Mul", {seen[place], column(stands[place], expert)}));
    Value said = product("output_linear.weight", expert, read, wide, hidden);
    addTo(sum, graph.add("Mul", {said, column(shares, expert)}));
  }
  return graph.add("Add", {sum, parameter(inside(own, "bias"), {hidden})});
}

} // namespace ztc::huggingface
