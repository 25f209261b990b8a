// Shapes of onnxruntime's own operators (domain com.microsoft); they always work on data.
#include "frontends/onnx/Evaluator.h"

namespace ztc::importer {
namespace {

void sameAsFirst(KernelContext &c) {
  c.shape(0, c.in(0).type, c.in(0).shape);
}

/// Result, mean and inverse deviation of each row, sum.
void skipNorm(KernelContext &c) {
  Shape row = c.in(0).shape;
  if (row.empty() || row.size() != c.in(1).shape.size() || c.in(2).shape.size() != 1) {
    c.fail("adds operands of one rank and scales by a vector");
    return;
  }
  c.shape(0, c.in(0).type, c.in(0).shape);
  row.back() = 1;
  c.shape(1, ElementType::F32, row);
  c.shape(2, ElementType::F32, row);
  c.shape(3, c.in(0).type, c.in(0).shape);
}

void groupQueryAttention(KernelContext &c) {
  Shape q = c.in(0).shape;
  int64_t heads = c.node.integer("num_heads", 0), keyHeads = c.node.integer("kv_num_heads", 0);
  bool isPacked = !c.has(1);
  if (q.size() != 3 || heads <= 0 || keyHeads <= 0 || heads % keyHeads != 0 ||
      q[2] % (isPacked ? heads + 2 * keyHeads : heads) != 0) {
    c.fail("operands are (batch, sequence, heads x width), with heads that divide by those of keys and values");
    return;
  }
  int64_t width = q[2] / (isPacked ? heads + 2 * keyHeads : heads);
  if (!isPacked && (c.in(1).shape != Shape{q[0], q[1], keyHeads * width} || c.in(2).shape != c.in(1).shape)) {
    c.fail("keys and values have another shape than (batch, sequence, their heads x width)");
    return;
  }
  c.shape(0, c.in(0).type, {q[0], q[1], heads * width});
  c.shape(1, c.in(0).type, {q[0], keyHeads, q[1], width});
  c.shape(2, c.in(0).type, {q[0], keyHeads, q[1], width});
}

void multiHeadAttention(KernelContext &c) {
  Shape q = c.in(0).shape, v = c.in(2).shape;
  int64_t heads = c.node.integer("num_heads", 0);
  if (q.size() != 3 || v.size() != 3 || c.in(1).shape.size() != 3 || heads <= 0 || q[2] % heads || v[2] % heads ||
      c.in(1).shape[2] != q[2]) {
    c.fail("packed operands or keys with heads of their own, which ztc does not read");
    return;
  }
  c.shape(0, c.in(0).type, {q[0], q[1], v[2]});
  c.shape(1, c.in(0).type, {q[0], heads, q[1], q[2] / heads});
  c.shape(2, c.in(0).type, {q[0], heads, q[1], v[2] / heads});
}

void fusedMatMul(KernelContext &c) {
  Shape a = c.in(0).shape, b = c.in(1).shape;
  if (a.size() < 2 || b.size() < 2) {
    c.fail("multiplies a vector, which ztc does not read");
    return;
  }
  if (c.node.integer("transA", 0))
    std::swap(a[a.size() - 1], a[a.size() - 2]);
  if (c.node.integer("transB", 0))
    std::swap(b[b.size() - 1], b[b.size() - 2]);
  Shape shape;
  if (!broadcastShape(llvm::ArrayRef(a).drop_back(2), llvm::ArrayRef(b).drop_back(2), shape) ||
      a.back() != b[b.size() - 2]) {
    c.fail("contraction sizes " + llvm::Twine(a.back()) + " and " + llvm::Twine(b[b.size() - 2]) + " differ");
    return;
  }
  shape.push_back(a[a.size() - 2]);
  shape.push_back(b.back());
  c.shape(0, c.in(0).type, shape);
}

} // namespace

void addContribKernels(llvm::StringMap<Kernel> &t) {
  for (const char *op : {"SimplifiedLayerNormalization", "Gelu", "BiasGelu", "FastGelu", "QuickGelu", "BiasSoftmax",
                         "RotaryEmbedding", "MoE"})
    t[("com.microsoft::" + llvm::Twine(op)).str()] = {sameAsFirst, 0, false, 0};
  t["com.microsoft::SkipSimplifiedLayerNormalization"] = {skipNorm, 0, false, 0};
  t["com.microsoft::SkipLayerNormalization"] = {skipNorm, 0, false, 0};
  t["com.microsoft::GroupQueryAttention"] = {groupQueryAttention, 0, false, 0};
  t["com.microsoft::MultiHeadAttention"] = {multiHeadAttention, 0, false, 0};
  t["com.microsoft::FusedMatMul"] = {fusedMatMul, 0, false, 0};
  t["com.microsoft::TransposeMatMul"] = {fusedMatMul, 0, false, 0};
}

} // namespace ztc::importer
