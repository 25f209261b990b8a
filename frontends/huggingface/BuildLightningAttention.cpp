// Linear attention whose decays are constants.
#include "frontends/huggingface/BuildDecoder.h"

namespace ztc::huggingface {

using Value = GraphWriter::Value;

/// (B, S, hidden).
Value DecoderBuilder::lightningAttention(const LightningAttention &l, const std::string &path, Value x) {
  constexpr double kEpsilon = 1e-6; // of the norm, whatever the configuration's
  const int64_t all = l.heads * l.width;
  Value read = linear(inside(path, "qkv_proj"), x, decoder.hidden, 3 * all, false);
  graph.setScope(checkpoint.ownName(path));
  read = activate(l.activation, path, read);
  std::vector<Value> parts = split(reshape(read, {0, 0, l.heads, 3 * l.width}), {l.width, l.width, l.width});
  for (Value &part : parts)
    part = reshape(part, {0, 0, all});
  std::vector<float> decays;
  for (double slope : l.slopes)
    decays.push_back(float(-slope));
  Value decay = graph.add("Expand", {graph.floats(decays, {1, 1, l.heads}), shapeOfTokens(l.heads)});
  Value y = graph.addMany(
      "LinearAttention", {parts[0], parts[1], parts[2], "", decay}, 2,
      {{"update_rule", std::string("gated")}, {"q_num_heads", l.heads}, {"kv_num_heads", l.heads}, {"scale", 1.0f}})[0];
  y = norm(inside(path, "norm"), y, all, {NormKind::Rms, kEpsilon});
  Value open = linear(inside(path, "output_gate"), x, decoder.hidden, all, false);
  graph.setScope(checkpoint.ownName(path));
  y = graph.add("Mul", {graph.add("Sigmoid", {open}), y});
  return linear(inside(path, "out_proj"), y, all, decoder.hidden, false);
}

} // namespace ztc::huggingface
