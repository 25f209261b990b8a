// The recurrent block of Griffin: channels of linear attention with one number each.
#include "frontends/huggingface/BuildDecoder.h"

namespace ztc::huggingface {

using Value = GraphWriter::Value;

/// (B, S, channels): the sigmoid of what each head's channels give by a matrix of its own.
Value DecoderBuilder::channelGate(const GatedRecurrence &r, const std::string &module, Value x) {
  using Width = GraphWriter::Width;
  const int64_t width = r.channels / r.heads;
  const NodeAttribute swapped{"perm", std::vector<int64_t>{1, 0, 2}};
  Value heads = graph.add("Transpose", {reshape(x, {-1, r.heads, width})}, {swapped});
  Value product = graph.add("MatMul", {heads, parameter(module + "_weight", {r.heads, width, width})});
  Value biased =
      graph.add("Add", {graph.add("Transpose", {product}, {swapped}), parameter(module + "_bias", {r.heads, width})});
  graph.setWidth(Width::Wide);
  Value gate = graph.add("Sigmoid", {graph.add("Reshape", {biased, shapeOfTokens(r.channels)})});
  graph.setWidth(Width::Policy);
  return gate;
}

/// (B, S, hidden). Gates, the recurrence and what it takes are f32 in 16-bit plans too: decays are near 1.
Value DecoderBuilder::gatedRecurrence(const GatedRecurrence &r, const std::string &path, Value x) {
  using Width = GraphWriter::Width;
  // Below it transformers bounds the derivative of the root by 1000: f32 numbers from 0 to the fourth above it.
  constexpr float kLeastSquare = 2.5e-7f;
  Value open = activate(r.activation, path, linear(inside(path, "linear_y"), x, decoder.hidden, r.channels, true));
  Value read = linear(inside(path, "linear_x"), x, decoder.hidden, r.channels, true);
  read = causalConvolution({inside(path, "conv_1d")}, read, {r.channels}, r.taps, true, Activation::Linear);
  const std::string unit = inside(path, "rg_lru");
  graph.setScope(checkpoint.ownName(unit));
  Value input = channelGate(r, inside(unit, "input_gate"), read);
  Value recurrent = channelGate(r, inside(unit, "recurrent_gate"), read);
  graph.setWidth(Width::Wide);
  Value rate = graph.add("Softplus", {parameter(inside(unit, "recurrent_param"), {r.channels})});
  Value decay = graph.add("Mul", {scaled(recurrent, -8), rate}); // a logarithm
  Value rest = graph.add("Sub", {graph.scalar(1), graph.add("Exp", {scaled(decay, 2)})});
  Value size = graph.add("Sqrt", {graph.add("Max", {rest, graph.scalar(kLeastSquare)})});
  // What a document begins with is taken as it is.
  Value isFirst = graph.add("Unsqueeze", {graph.add("Equal", {positions, graph.integer(0)}), graph.integers({1})});
  size = graph.add("Where", {isFirst, graph.scalar(1), size});
  Value value = graph.add("Mul", {graph.add("Mul", {read, input}), size});
  Value one = graph.add("Expand", {graph.floats({1.0f}, {1, 1, 1}), shapeOfTokens(r.channels)});
  Value y = graph.addMany("LinearAttention", {one, one, value, "", decay}, 2,
                          {{"update_rule", std::string("gated")},
                           {"q_num_heads", r.channels},
                           {"kv_num_heads", r.channels},
                           {"scale", 1.0f}})[0];
  graph.setWidth(Width::Policy);
  graph.setScope(checkpoint.ownName(path));
  return linear(inside(path, "linear_out"), graph.add("Mul", {y, open}), r.channels, decoder.hidden, true);
}

} // namespace ztc::huggingface
