// Shapes of ops that stand for whole pieces of a model: softmax, norms, attention, losses.
#include "frontends/onnx/EvaluateByGraph.h"
#include "frontends/onnx/RecurrentHeads.h"

using llvm::ArrayRef;

namespace ztc::importer {
namespace {

void shapeOfFirst(KernelContext &c) {
  c.shape(0, c.in(0).type, c.in(0).shape);
}

/// Mean and inverse deviation, in float, keep the normalised dimensions with size 1.
void layerNorm(KernelContext &c) {
  Shape shape = c.in(0).shape;
  int64_t axis = c.normalAxis(c.node.integer("axis", -1), shape.size());
  if (c.failed())
    return;
  c.shape(0, c.in(0).type, shape);
  for (size_t d = axis; d < shape.size(); ++d)
    shape[d] = 1;
  auto stash = static_cast<ElementType>(c.node.integer("stash_type", 1));
  c.shape(1, stash, shape);
  c.shape(2, stash, shape);
}

/// (B, S, H * D) has its heads in an attribute.
bool withHeads(KernelContext &c, Shape &x, llvm::StringRef attribute) {
  if (x.size() == 4)
    return true;
  int64_t heads = c.node.integer(attribute, 0);
  if (x.size() != 3 || heads <= 0 || x[2] % heads)
    return c.fail("three-dimensional operands need q_num_heads and kv_num_heads that divide them");
  x = {x[0], heads, x[1], x[2] / heads};
  return true;
}

void attention(KernelContext &c) {
  Shape q = c.in(0).shape, k = c.in(1).shape, v = c.in(2).shape;
  bool isFlat = q.size() == 3;
  if (!withHeads(c, q, "q_num_heads") || !withHeads(c, k, "kv_num_heads") || !withHeads(c, v, "kv_num_heads"))
    return;
  if (k[2] != v[2] || q[3] != k[3] || k[1] != v[1] || q[0] != k[0] || q[0] != v[0]) {
    c.fail("queries, keys and values do not fit each other");
    return;
  }
  for (auto [input, present] : {std::pair(4u, &k), {5u, &v}})
    if (c.has(input) && c.in(input).shape.size() == 4)
      (*present)[2] += c.in(input).shape[2];
  c.shape(0, c.in(0).type, isFlat ? Shape{q[0], q[2], q[1] * v[3]} : Shape{q[0], q[1], q[2], v[3]});
  c.shape(1, c.in(1).type, k);
  c.shape(2, c.in(2).type, v);
  c.shape(3, c.in(0).type, {q[0], q[1], q[2], k[2]});
}

void linearAttention(KernelContext &c) {
  std::string error;
  std::optional<RecurrentHeads> heads = RecurrentHeads::of(c.node, c.in(0).shape, c.in(1).shape, c.in(2).shape, error);
  if (!heads) {
    c.fail(error);
    return;
  }
  const Shape &q = c.in(0).shape;
  const int64_t B = q[0], T = q[1];
  for (unsigned input : {4u, 5u}) {
    const Shape expected{B, T, heads->states}, *found = c.has(input) ? &c.in(input).shape : nullptr;
    if (!found || *found == expected || (input == 4 && *found == Shape{B, T, heads->states * heads->keyWidth}) ||
        (input == 5 && *found == Shape{B, T, 1}))
      continue;
    c.fail(input == 4 ? "its decay is neither (batch, sequence, kv_num_heads) nor that times the width of a key"
                      : "its beta is neither (batch, sequence, kv_num_heads) nor (batch, sequence, 1)");
    return;
  }
  const Shape state{B, heads->states, heads->keyWidth, heads->valueWidth};
  if (c.has(3) && c.in(3).shape != state) {
    c.fail("its past_state is not (batch, kv_num_heads, width of a key, width of a value)");
    return;
  }
  c.shape(0, c.in(0).type, {B, T, std::max(heads->queries, heads->states) * heads->valueWidth});
  c.shape(1, c.has(3) ? c.in(3).type : c.in(0).type, state);
}

void causalConvolution(KernelContext &c) {
  const Shape x = c.in(0).shape, weight = c.in(1).shape;
  if (x.size() != 3 || weight.size() != 3 || weight[0] != x[1] || weight[1] != 1 || weight[2] < 1) {
    c.fail("its input is not (batch, channels, sequence) with a weight (channels, 1, taps)");
    return;
  }
  const Shape past{x[0], x[1], weight[2] - 1};
  if ((c.has(2) && c.in(2).shape != Shape{x[1]}) || (c.has(3) && c.in(3).shape != past)) {
    c.fail("its bias is not (channels), or its past_state not (batch, channels, taps - 1)");
    return;
  }
  c.shape(0, c.in(0).type, x);
  c.shape(1, c.in(0).type, past);
}

/// Scores (N, C, d...), targets (N, d...).
void loss(KernelContext &c) {
  Shape shape = c.in(0).shape;
  if (shape.size() < 2 || c.in(1).shape.size() + 1 != shape.size()) {
    c.fail("scores and targets do not fit each other");
    return;
  }
  c.shape(0, c.in(0).type, c.node.text("reduction", "mean") == "none" ? c.in(1).shape : Shape{});
  c.shape(1, c.in(0).type, shape);
}

} // namespace

void addModelKernels(llvm::StringMap<Kernel> &t) {
  for (const char *op :
       {"Softmax", "LogSoftmax", "Hardmax", "RMSNormalization", "SimplifiedLayerNormalization", "RotaryEmbedding",
        "InstanceNormalization", "GroupNormalization", "MeanVarianceNormalization", "LpNormalization"})
    t[op] = {byGraph<shapeOfFirst>, 0, false, 0};
  t["LayerNormalization"] = {byGraph<layerNorm>, 0, false, 0};
  t["Attention"] = {byGraph<attention>, 0, false, 0};
  t["LinearAttention"] = t["com.microsoft::LinearAttention"] = {byGraph<linearAttention>, 0, false, 0};
  t["CausalConvWithState"] = t["com.microsoft::CausalConvWithState"] = {byGraph<causalConvolution>, 0, false, 0};
  t["NegativeLogLikelihoodLoss"] = {byGraph<loss>, 0, false, 0};
  t["SoftmaxCrossEntropyLoss"] = {byGraph<loss>, 0, false, 0};
}

} // namespace ztc::importer
