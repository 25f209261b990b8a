// Mamba, whose channels are heads of linear attention with one value: each number of a state decays by itself.
#include "frontends/huggingface/BuildDecoder.h"

namespace ztc::huggingface {

using Value = GraphWriter::Value;

/// (B, S, hidden). What transformers computes in f32, 16-bit plans do too: the steps and all that the state takes and
/// gives.
Value DecoderBuilder::selectiveScan(const SelectiveScan &s, const std::string &path, Value x) {
  using Width = GraphWriter::Width;
  const int64_t channels = s.channels, states = s.stateWidth;
  std::vector<Value> halves =
      split(linear(inside(path, "in_proj"), x, decoder.hidden, 2 * channels, s.bias), {channels, channels});
  Value read =
      causalConvolution({inside(path, "conv1d")}, halves[0], {channels}, s.taps, s.convolutionBias, s.activation);
  std::vector<Value> parts =
      split(linear(inside(path, "x_proj"), read, channels, s.rank + 2 * states, false), {s.rank, states, states});
  const int64_t widths[] = {s.rank, states, states};
  const char *norms[] = {"dt_layernorm", "b_layernorm", "c_layernorm"};
  for (int i = 0; s.epsilon && i < 3; ++i)
    parts[i] = norm(inside(path, s.normsHaveWeights ? norms[i] : ""), parts[i], widths[i],
                    {s.normsHaveWeights ? NormKind::Rms : NormKind::RmsPlain, *s.epsilon});
  Value step = linear(inside(path, "dt_proj"), parts[0], s.rank, channels, false);
  graph.setScope(checkpoint.ownName(path));
  graph.setWidth(Width::Wide);
  step = graph.add("Softplus", {graph.add("Add", {step, parameter(inside(path, "dt_proj.bias"), {channels})})});
  Value rate = graph.add("Neg", {graph.add("Exp", {parameter(inside(path, "A_log"), {channels, states})})});
  Value decay = graph.add("Mul", {graph.add("Unsqueeze", {step, graph.integers({-1})}), rate});
  Value y = graph.addMany("LinearAttention",
                          {sharedHeads(parts[2], 1, channels, states), sharedHeads(parts[1], 1, channels, states),
                           graph.add("Mul", {step, read}), "", reshape(decay, {0, 0, channels * states})},
                          2,
                          {{"update_rule", std::string("gated")},
                           {"q_num_heads", channels},
                           {"kv_num_heads", channels},
                           {"scale", 1.0f}})[0];
  y = graph.add("Add", {y, graph.add("Mul", {read, parameter(inside(path, "D"), {channels})})});
  y = graph.add("Mul", {y, activate(Activation::Silu, path, halves[1])});
  graph.setWidth(Width::Policy);
  return linear(inside(path, "out_proj"), y, channels, decoder.hidden, s.bias);
}

} // namespace ztc::huggingface
