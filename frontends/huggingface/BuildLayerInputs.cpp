// Inputs of each layer: a second table of embedded tokens, and a projection of the first's rows.
#include "frontends/huggingface/BuildDecoder.h"
#include <cmath>

namespace ztc::huggingface {

using Value = GraphWriter::Value;

/// (B, S, layers, width): (rms_norm(projection of embedded tokens / sqrt(hidden)) + the table's rows) / sqrt(2), as
/// transformers' project_per_layer_inputs computes it.
Value DecoderBuilder::layerInputs(Value tokens, Value embedded) {
  const LayerInputs &inputs = *decoder.layerInputs;
  int64_t layers = int64_t(decoder.layers.size()), all = layers * inputs.width;
  std::vector<int64_t> shape{0, 0, layers, inputs.width};
  if (inputs.vocabulary < decoder.vocabulary) // tokens beyond the table have its first row
    tokens =
        graph.add("Where", {graph.add("Less", {tokens, graph.integer(inputs.vocabulary)}), tokens, graph.integer(0)});
  Value rows = lookedUp(decoder.base + "embed_tokens_per_layer", tokens, inputs.vocabulary, all);
  rows = reshape(scaled(rows, inputs.scale), shape);
  Value projected =
      linear(decoder.base + "per_layer_model_projection", embedded, decoder.hidden, all, /*hasBias=*/false);
  projected = reshape(scaled(projected, 1 / std::sqrt(double(decoder.hidden))), shape);
  projected = norm(decoder.base + "per_layer_projection_norm", projected, inputs.width, decoder.norm);
  graph.setScope("");
  return scaled(graph.add("Add", {projected, rows}), 1 / std::sqrt(2.0));
}

/// What a layer adds to its stream `x` for its input: rms_norm(projection(activation(gate(x)) * input)).
Value DecoderBuilder::fromLayerInput(const Layer &layer, const std::string &path, Value x, Value inputs,
                                     int64_t index) {
  int64_t width = decoder.layerInputs->width;
  Value gate = linear(inside(path, "per_layer_input_gate"), x, decoder.hidden, width, /*hasBias=*/false);
  graph.setScope(checkpoint.ownName(path));
  gate = activate(layer.feedForward.activation, path, gate);
  Value own =
      reshape(graph.add("Slice", {inputs, graph.integers({index}), graph.integers({index + 1}), graph.integers({2})}),
              {0, 0, width});
  Value y = linear(inside(path, "per_layer_projection"), graph.add("Mul", {gate, own}), width, decoder.hidden,
                   /*hasBias=*/false);
  return norm(inside(path, "post_per_layer_input_norm"), y, decoder.hidden, decoder.norm);
}

} // namespace ztc::huggingface
