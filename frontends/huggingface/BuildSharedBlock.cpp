// A block whose weights several layers share.
#include "frontends/huggingface/BuildDecoder.h"

namespace ztc::huggingface {

using Value = GraphWriter::Value;

/// (B, S, out); `list`: modules with a pair of linear layers for each use.
Value DecoderBuilder::lowRank(const LowRank &low, const std::string &list, Value x, int64_t in, int64_t out) {
  const std::string module = inside(list, std::to_string(low.use));
  return linear(inside(module, "1"), linear(inside(module, "0"), x, in, low.rank, false), low.rank, out, false);
}

/// What the layer at `path` reads beside its input `x`, (B, S, hidden).
Value DecoderBuilder::sharedBlock(const Layer &layer, const std::string &path, Value x) {
  const BlockNames &names = decoder.names;
  const std::string shared =
      inside(decoder.base + decoder.layersName + "." + std::to_string(*layer.sharedBlock), "shared_transformer");
  graph.setScope(checkpoint.ownName(path));
  Value both = graph.add("Concat", {x, embedded}, {{"axis", int64_t(-1)}});
  both = norm(inside(shared, names.attentionNorm), both, 2 * decoder.hidden, decoder.norm);
  Value seen = attention(layer, inside(shared, names.attention), both);
  seen = norm(inside(shared, names.feedForwardNorm), seen, decoder.hidden, decoder.norm);
  Value thought = dense(layer.feedForward, inside(shared, names.feedForward), seen);
  return linear(inside(path, "linear"), thought, decoder.hidden, decoder.hidden, false);
}

} // namespace ztc::huggingface
