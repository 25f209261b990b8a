// Causal convolutions of each channel by itself, and the layers that are made of one.
#include "frontends/huggingface/BuildDecoder.h"

namespace ztc::huggingface {

using Value = GraphWriter::Value;

/// (B, S, channels): each channel's sum of its last `taps` tokens times a vector of its own. Modules of `names` below
/// `path` are convolved as one: a checkpoint may have several, of `sizes` channels.
Value DecoderBuilder::causalConvolution(const std::vector<std::string> &modules, Value x,
                                        const std::vector<int64_t> &sizes, int64_t taps, bool hasBias,
                                        Activation activation) {
  graph.setScope(checkpoint.ownName(modules.front()));
  std::vector<Value> weights, biases;
  for (size_t i = 0; i < modules.size(); ++i) {
    weights.push_back(parameter(modules[i] + ".weight", {sizes[i], 1, taps}));
    if (hasBias)
      biases.push_back(parameter(modules[i] + ".bias", {sizes[i]}));
  }
  auto joined = [&](const std::vector<Value> &parts) {
    return parts.size() == 1 ? parts.front() : graph.add("Concat", parts, {{"axis", int64_t(0)}});
  };
  const NodeAttribute swapped{"perm", std::vector<int64_t>{0, 2, 1}};
  std::vector<Value> inputs{graph.add("Transpose", {x}, {swapped}), joined(weights)};
  if (hasBias)
    inputs.push_back(joined(biases));
  const bool isSilu = activation == Activation::Silu;
  Value y = graph.addMany("CausalConvWithState", inputs, 2, {{"activation", std::string(isSilu ? "silu" : "none")}})[0];
  y = graph.add("Transpose", {y}, {swapped});
  return isSilu ? y : activate(activation, modules.front(), y);
}

Value DecoderBuilder::shortConvolution(const ShortConvolution &convolution, const std::string &path, Value x) {
  const int64_t hidden = decoder.hidden;
  std::vector<Value> parts =
      split(linear(inside(path, "in_proj"), x, hidden, 3 * hidden, convolution.bias), {hidden, hidden, hidden});
  Value seen = graph.add("Mul", {parts[0], parts[2]});
  seen =
      causalConvolution({inside(path, "conv")}, seen, {hidden}, convolution.taps, convolution.bias, Activation::Linear);
  graph.setScope(checkpoint.ownName(path));
  return linear(inside(path, "out_proj"), graph.add("Mul", {parts[1], seen}), hidden, hidden, convolution.bias);
}

} // namespace ztc::huggingface
