// Mamba 2, whose state space model is linear attention with a decay for each head.
#include "frontends/huggingface/BuildDecoder.h"

namespace ztc::huggingface {

using Value = GraphWriter::Value;

/// (B, S, heads * width), in f32.
Value DecoderBuilder::gatedNorm(const StateSpace &s, const std::string &path, Value x, Value gate) {
  const int64_t width = s.heads * s.headWidth;
  Value open = activate(Activation::Silu, path, gate);
  if (s.gate != StateSpace::Gate::AfterNorm)
    x = graph.add("Mul", {x, open});
  if (s.gate == StateSpace::Gate::Alone)
    return x;
  const std::string module = inside(path, "norm");
  if (s.normGroups == 1) {
    x = norm(module, x, width, {NormKind::Rms, s.epsilon});
  } else {
    const int64_t part = width / s.normGroups;
    x = norm(module, reshape(x, {0, 0, s.normGroups, part}), part, {NormKind::RmsPlain, s.epsilon});
    x = graph.add("Mul", {reshape(x, {0, 0, width}), parameter(module + ".weight", {width})});
  }
  graph.setScope(checkpoint.ownName(path));
  return s.gate == StateSpace::Gate::AfterNorm ? graph.add("Mul", {x, open}) : x;
}

/// (B, S, hidden). What transformers computes in f32, 16-bit plans do too: all between the convolution, the steps and
/// the last projection.
Value DecoderBuilder::stateSpace(const StateSpace &s, const std::string &path, Value x) {
  using Width = GraphWriter::Width;
  const int64_t inner = s.heads * s.headWidth, shared = s.groups * s.stateWidth, convolved = inner + 2 * shared,
                all = inner + convolved + s.heads;
  Value projected = linear(inside(path, "in_proj"), scaled(x, s.inputScale), decoder.hidden, all, s.bias);
  graph.setScope(checkpoint.ownName(path));
  if (!s.scales.empty()) {
    std::vector<float> each;
    const int64_t sizes[] = {inner, inner, shared, shared, s.heads};
    for (size_t i = 0; i < s.scales.size(); ++i)
      each.insert(each.end(), size_t(sizes[i]), float(s.scales[i]));
    projected = graph.add("Mul", {projected, graph.floats(each, {all})});
  }
  std::vector<Value> parts = split(projected, {inner, convolved, s.heads});
  Value step = stateStep(path, parts[2], s.heads);
  if (s.leastStep > 0 || s.mostStep)
    step = graph.add("Clip",
                     {step, graph.scalar(float(s.leastStep)), s.mostStep ? graph.scalar(float(*s.mostStep)) : Value()});
  Value read =
      causalConvolution({inside(path, "conv1d")}, parts[1], {convolved}, s.taps, s.convolutionBias, s.activation);
  graph.setScope(checkpoint.ownName(path));
  std::vector<Value> of = split(read, {inner, shared, shared});
  graph.setWidth(Width::Wide);
  Value decay = stateDecay(path, step, s.heads), heads = reshape(of[0], {0, 0, s.heads, s.headWidth});
  Value value = graph.add("Mul", {heads, graph.add("Unsqueeze", {step, graph.integers({-1})})});
  Value key = sharedHeads(of[1], s.groups, s.heads, s.stateWidth),
        query = sharedHeads(of[2], s.groups, s.heads, s.stateWidth);
  Value y = graph.addMany(
      "LinearAttention", {query, key, reshape(value, {0, 0, inner}), "", decay}, 2,
      {{"update_rule", std::string("gated")}, {"q_num_heads", s.heads}, {"kv_num_heads", s.heads}, {"scale", 1.0f}})[0];
  Value skipped = graph.add("Mul", {heads, reshape(parameter(inside(path, "D"), {s.heads}), {s.heads, 1})});
  y = gatedNorm(s, path, graph.add("Add", {y, reshape(skipped, {0, 0, inner})}), parts[0]);
  graph.setWidth(Width::Policy);
  return scaled(linear(inside(path, "out_proj"), y, inner, decoder.hidden, s.outputBias), s.resultScale);
}

} // namespace ztc::huggingface
