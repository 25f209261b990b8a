// Linear attention by the gated delta rule.
#include "frontends/huggingface/BuildDecoder.h"
#include <cmath>

namespace ztc::huggingface {

using Value = GraphWriter::Value;

/// (B, S, to * width): each of `from` heads as often as others share it.
Value DecoderBuilder::sharedHeads(Value x, int64_t from, int64_t to, int64_t width) {
  if (from == to)
    return x;
  Value split = reshape(x, {0, 0, from, 1, width});
  return reshape(graph.add("Expand", {split, graph.integers({1, 1, 1, to / from, 1})}), {0, 0, to * width});
}

/// x / sqrt(sum of x^2 + 1e-6) of each head, which is a root mean square norm with a constant weight.
Value DecoderBuilder::unitHeads(Value x, int64_t heads, int64_t width) {
  constexpr double kEpsilon = 1e-6; // transformers' l2norm
  const float weight = float(1 / std::sqrt(double(width)));
  Value y = graph.add("RMSNormalization",
                      {reshape(x, {0, 0, heads, width}), graph.floats(std::vector<float>(width, weight), {width})},
                      {{"axis", int64_t(-1)}, {"epsilon", float(kEpsilon / double(width))}});
  return reshape(y, {0, 0, heads * width});
}

/// softplus(x + dt_bias), (B, S, heads).
Value DecoderBuilder::stateStep(const std::string &path, Value x, int64_t heads) {
  return graph.add("Softplus", {graph.add("Add", {x, parameter(inside(path, "dt_bias"), {heads})})});
}

/// -exp(A_log) * step, (B, S, heads): the logarithm of what the state decays by.
Value DecoderBuilder::stateDecay(const std::string &path, Value step, int64_t heads) {
  Value rate = graph.add("Neg", {graph.add("Exp", {parameter(inside(path, "A_log"), {heads})})});
  return graph.add("Mul", {rate, step});
}

/// The same for each row of the state; `x` is (B, S, heads, width), the result (B, S, heads * width).
Value DecoderBuilder::rowDecay(const DeltaNet &d, const std::string &path, Value x) {
  const int64_t keys = d.keyHeads * d.keyWidth;
  Value bias = reshape(parameter(inside(path, "dt_bias"), {keys}), {d.keyHeads, d.keyWidth});
  Value step = graph.add("Softplus", {graph.add("Add", {x, bias})});
  Value rate = graph.add("Neg", {graph.add("Exp", {parameter(inside(path, "A_log"), {1, 1, d.keyHeads, 1})})});
  return reshape(graph.add("Mul", {rate, step}), {0, 0, keys});
}

DecoderBuilder::DeltaInputs DecoderBuilder::deltaInputs(const DeltaNet &d, const std::string &path, Value x) {
  using Projections = DeltaNet::Projections;
  const int64_t hidden = decoder.hidden, keys = d.keyHeads * d.keyWidth, values = d.valueHeads * d.valueWidth;
  auto projected = [&](const std::string &name, int64_t width) {
    return linear(inside(path, name), x, hidden, width, false);
  };
  if (d.projections == Projections::Kinds)
    return {{projected("in_proj_qkv", 2 * keys + values)},
            projected("in_proj_z", values),
            projected("in_proj_b", d.valueHeads),
            projected("in_proj_a", d.valueHeads)};
  auto narrowed = [&](const std::string &first, const std::string &second, int64_t width) {
    return linear(inside(path, second), projected(first, d.keyWidth), d.keyWidth, width, false);
  };
  if (d.decaysByRow)
    return {{projected("q_proj", keys), projected("k_proj", keys), projected("v_proj", values)},
            narrowed("g_a_proj", "g_b_proj", values),
            projected("b_proj", d.valueHeads),
            narrowed("f_a_proj", "f_b_proj", keys)};
  if (d.projections == Projections::Apart)
    return {{projected("q_proj", keys), projected("k_proj", keys), projected("v_proj", values)},
            projected("g_proj", values),
            projected("b_proj", d.valueHeads),
            projected("a_proj", d.valueHeads)};
  const int64_t shared = d.valueHeads / d.keyHeads;
  Value all = projected("in_proj_qkvz", 2 * (keys + values)), both = projected("in_proj_ba", 2 * d.valueHeads);
  graph.setScope(checkpoint.ownName(path));
  auto blocks = [&](Value of, const std::vector<int64_t> &sizes) {
    int64_t width = 0;
    for (int64_t size : sizes)
      width += size;
    std::vector<Value> parts = split(reshape(of, {0, 0, d.keyHeads, width}), sizes);
    for (size_t i = 0; i < parts.size(); ++i)
      parts[i] = reshape(parts[i], {0, 0, d.keyHeads * sizes[i]});
    return parts;
  };
  std::vector<Value> parts = blocks(all, {d.keyWidth, d.keyWidth, shared * d.valueWidth, shared * d.valueWidth});
  std::vector<Value> gates = blocks(both, {shared, shared});
  return {{parts[0], parts[1], parts[2]}, parts[3], gates[0], gates[1]};
}

/// (B, S, hidden). What transformers computes in f32, 16-bit plans do too: decays, norms of keys, the state.
Value DecoderBuilder::deltaNet(const DeltaNet &d, const std::string &path, Value x) {
  using Width = GraphWriter::Width;
  const int64_t keys = d.keyHeads * d.keyWidth, values = d.valueHeads * d.valueWidth;
  auto [mixed, gate, b, a] = deltaInputs(d, path, x);
  graph.setScope(checkpoint.ownName(path));
  Value read = mixed.size() == 1 ? mixed[0] : graph.add("Concat", mixed, {{"axis", int64_t(-1)}});
  std::vector<std::string> modules{inside(path, "conv1d")};
  std::vector<int64_t> sizes{2 * keys + values};
  if (d.projections == DeltaNet::Projections::Apart && !checkpoint.has(modules[0] + ".weight")) {
    modules = {inside(path, "q_conv1d"), inside(path, "k_conv1d"), inside(path, "v_conv1d")};
    // transformers joins them when it loads, and saves three parts as equal as can be.
    const int64_t third = (sizes[0] + 2) / 3;
    sizes = checkpoint.hasShape(modules[0] + ".weight", {third, 1, d.taps})
                ? std::vector<int64_t>{third, third, sizes[0] - 2 * third}
                : std::vector<int64_t>{keys, keys, values};
  }
  read = causalConvolution(modules, read, sizes, d.taps, false, d.activation);
  graph.setScope(checkpoint.ownName(path));
  std::vector<Value> parts = split(read, {keys, keys, values});
  Value beta = scaled(graph.add("Sigmoid", {b}), d.betaReachesTwo ? 2 : 1);
  if (d.decaysByRow)
    a = reshape(a, {0, 0, d.keyHeads, d.keyWidth});
  graph.setWidth(Width::Wide);
  Value decay = d.decaysByRow ? rowDecay(d, path, a) : stateDecay(path, stateStep(path, a, d.valueHeads), d.valueHeads);
  for (int i = 0; i < 2; ++i)
    parts[i] = sharedHeads(unitHeads(parts[i], d.keyHeads, d.keyWidth), d.keyHeads, d.valueHeads, d.keyWidth);
  graph.setWidth(Width::Policy);
  Value y = graph.addMany("LinearAttention", {parts[0], parts[1], parts[2], "", decay, beta}, 2,
                          {{"update_rule", std::string("gated_delta")},
                           {"q_num_heads", d.valueHeads},
                           {"kv_num_heads", d.valueHeads},
                           {"scale", float(1 / std::sqrt(double(d.keyWidth)))}})[0];
  const bool isApart = d.projections == DeltaNet::Projections::Apart;
  graph.setWidth(d.gateIsSigmoid ? Width::Wide : Width::Policy); // rounded once, after the gate
  y = norm(inside(path, isApart ? "o_norm" : "norm"), reshape(y, {0, 0, d.valueHeads, d.valueWidth}), d.valueWidth,
           {NormKind::Rms, d.epsilon});
  graph.setScope(checkpoint.ownName(path));
  graph.setWidth(Width::Wide);
  Value open = activate(d.gateIsSigmoid ? Activation::Sigmoid : Activation::Silu, path, gate);
  graph.setWidth(d.gateIsSigmoid ? Width::Wide : Width::Policy);
  y = graph.add("Mul", {reshape(y, {0, 0, values}), open});
  graph.setWidth(Width::Policy);
  return linear(inside(path, isApart ? "o_proj" : "out_proj"), y, values, decoder.hidden, false);
}

} // namespace ztc::huggingface
