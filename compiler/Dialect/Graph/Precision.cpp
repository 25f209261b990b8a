// The policy table of mixed precision: one row per op that does not store all its floats in one type. What an op rounds
// inside is listed in RationaleNumerics.md.
#include "compiler/Dialect/Graph/Graph.h"

using namespace mlir;
using namespace ztc::graph;
using ztc::PrecisionRule;
using enum ztc::Storage;

// The gradient of a weight adds up in f32 over micro-steps and over both uses of a tied parameter.
PrecisionRule MatmulOp::getPrecisionRule() {
  return {{Narrow, Narrow}, {Asked}};
}
// The weight is read as it is: a parameter narrow, 1 + w (Gemma) in f32.
PrecisionRule RmsNormGradOp::getPrecisionRule() {
  return {{Narrow, Free, Narrow}, {Narrow, Wide}};
}
PrecisionRule EmbeddingGradOp::getPrecisionRule() {
  return {{Narrow, Narrow}, {Wide}};
}
// A sum is a statistic of a row, or the gradient of a bias.
PrecisionRule ReduceSumOp::getPrecisionRule() {
  return {{Free}, {Wide}};
}
// Tables of cosines and sines.
PrecisionRule RopeOp::getPrecisionRule() {
  return {{Narrow, Wide, Wide}, {Narrow}};
}
// q, k, v, places; out and the row statistics.
PrecisionRule AttentionOp::getPrecisionRule() {
  return {{Narrow, Narrow, Narrow, Free}, {Narrow, Wide}};
}
// q, k, v, out, row statistics, dout, places.
PrecisionRule AttentionGradOp::getPrecisionRule() {
  return {{Narrow, Narrow, Narrow, Narrow, Wide, Narrow, Free}, {Narrow, Narrow, Narrow}};
}
// Logits are stored as any activation; what is computed from a row is f32.
PrecisionRule CrossEntropyOp::getPrecisionRule() {
  return {{Narrow, Wide, Wide}, {Wide}};
}
PrecisionRule CrossEntropyGradOp::getPrecisionRule() {
  return {{Narrow, Wide, Wide, Wide}, {Narrow}};
}
// hidden, head, targets, scale, weights; the loss, d_hidden, d_head.
PrecisionRule LinearCrossEntropyOp::getPrecisionRule() {
  return {{Narrow, Narrow, Wide, Wide, Wide}, {Wide, Narrow, Wide}};
}
// The bit patterns of seed and step are what is read.
PrecisionRule RandomBitsOp::getPrecisionRule() {
  return {{Free, Free, Free, Wide, Wide}, {Wide}};
}
