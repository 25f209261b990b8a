// Hyper-connections: several residual streams, which halves of blocks read and write by learned weights (Hy 4).
#include "frontends/huggingface/BuildDecoder.h"

namespace ztc::huggingface {

using Value = GraphWriter::Value;

/// `streams`: (B, S, streams, hidden). All of it is f32 in every precision, and so are the parameters.
DecoderBuilder::Reading DecoderBuilder::reading(const std::string &module, const std::string &prefix, Value streams,
                                                bool isLast) {
  const Connections &c = *decoder.connections;
  const int64_t count = c.streams, kinds = isLast ? 1 : 2;
  graph.setScope(checkpoint.ownName(module));
  graph.setWidth(GraphWriter::Width::Parameters);
  Value flat = norm(module, reshape(streams, {0, 0, count * decoder.hidden}), count * decoder.hidden,
                    {NormKind::RmsPlain, decoder.norm.epsilon});
  Value matrix = parameter(inside(module, prefix + "fn"), {kinds * count, count * decoder.hidden});
  Value mixes = graph.add("MatMul", {flat, graph.add("Transpose", {matrix}, {{"perm", std::vector<int64_t>{1, 0}}})});
  Value scale = parameter(inside(module, prefix + "scale"), {kinds}),
        base = parameter(inside(module, prefix + "base"), {kinds * count});
  auto weights = [&](int64_t kind) {
    Value logits = mixes, own = scale, from = base;
    if (kinds > 1) {
      auto part = [&](Value x, int64_t size) {
        return graph.add("Slice",
                         {x, graph.integers({kind * size}), graph.integers({(kind + 1) * size}), graph.integers({-1})});
      };
      logits = part(mixes, count), own = part(scale, 1), from = part(base, count);
    }
    return graph.add("Sigmoid", {graph.add("Add", {graph.add("Mul", {logits, own}), from})});
  };
  auto raised = [&](Value x) { return graph.add("Add", {x, graph.scalar(float(c.epsilon))}); };
  Reading result;
  Value read = graph.add("Unsqueeze", {raised(weights(0)), graph.integers({-1})});
  result.sum =
      graph.add("ReduceSum", {graph.add("Mul", {streams, read}), graph.integers({2})}, {{"keepdims", int64_t(0)}});
  if (!isLast)
    result.written = raised(scaled(weights(1), c.magnitude));
  graph.setWidth(GraphWriter::Width::Policy);
  return result;
}

/// Streams with a half's result, (B, S, hidden), added to each.
Value DecoderBuilder::written(Value streams, Value weights, Value result) {
  graph.setWidth(GraphWriter::Width::Wide);
  Value all = graph.add("Mul", {graph.add("Unsqueeze", {result, graph.integers({2})}),
                                graph.add("Unsqueeze", {weights, graph.integers({-1})})});
  graph.setWidth(GraphWriter::Width::Policy);
  return graph.add("Add", {streams, all});
}

/// All blocks, and the sum of their streams that the last norm reads.
Value DecoderBuilder::connected(Value x) {
  const Connections &c = *decoder.connections;
  const BlockNames &names = decoder.names;
  Value streams =
      graph.add("Expand", {graph.add("Unsqueeze", {x, graph.integers({2})}), graph.integers({1, 1, c.streams, 1})});
  for (size_t i = 0; i < decoder.layers.size(); ++i) {
    const Layer &layer = decoder.layers[i];
    const std::string path = decoder.base + decoder.layersName + "." + std::to_string(i);
    Reading one = reading(inside(path, c.attention), "hc_", streams, false);
    Value in = norm(inside(path, names.attentionNorm), one.sum, decoder.hidden, decoder.norm);
    streams = written(streams, one.written, mixed(layer, path, in));
    Reading two = reading(inside(path, c.feedForward), "hc_", streams, false);
    in = norm(inside(path, names.feedForwardNorm), two.sum, decoder.hidden, decoder.norm);
    streams = written(streams, two.written, feedForward(layer, path, two.sum, in));
  }
  return reading(decoder.base + c.head, "hc_head_", streams, true).sum;
}

} // namespace ztc::huggingface
