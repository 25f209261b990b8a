// Ops that stand for whole pieces of a model: only their shapes are evaluated, they always work on data.
#include "frontends/onnx/Evaluator.h"
#include "llvm/Support/MathExtras.h"

namespace ztc::importer {
namespace {

void sameAsFirst(KernelContext &c) {
  c.shape(0, c.in(0).type, c.in(0).shape);
}

void attention(KernelContext &c) {
  Shape q = c.in(0).shape, v = c.in(2).shape;
  if (q.size() != v.size() || (q.size() != 3 && q.size() != 4)) {
    c.fail("q, k and v have 3 or 4 dimensions");
    return;
  }
  if (q.size() == 4) {
    q.back() = v.back();
  } else {
    int64_t heads = c.node.integer("q_num_heads", 0), keyHeads = c.node.integer("kv_num_heads", 0);
    if (heads <= 0 || keyHeads <= 0) {
      c.fail("three-dimensional operands need q_num_heads and kv_num_heads");
      return;
    }
    if (v.back() % keyHeads || llvm::MulOverflow(v.back() / keyHeads, heads, q.back())) {
      c.fail("v's last dimension " + llvm::Twine(v.back()) + " is no multiple of kv_num_heads " +
             llvm::Twine(keyHeads));
      return;
    }
  }
  c.shape(0, c.in(0).type, q);
}

} // namespace

void addModelKernels(llvm::StringMap<Kernel> &t) {
  for (const char *op : {"Softmax", "LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization",
                         "RotaryEmbedding", "Gelu", "Swish"})
    t[op] = {sameAsFirst, 0, false, 0};
  t["Attention"] = {attention, 0, false, 0};
}

} // namespace ztc::importer
