#include "frontends/onnx/LayerIdioms.h"
#include "compiler/Dialect/Graph/Graph.h"
#include "compiler/Support/Location.h"
#include "frontends/onnx/Build.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>

using namespace mlir;
using llvm::formatv;

namespace ztc::importer {

static std::string describe(graph::AttentionOp op) {
  int64_t heads = shapeOf(op.getQ())[2], size = shapeOf(op.getQ())[3], shared = shapeOf(op.getK())[2];
  std::string text = op.getCausal() ? "attention causal" : "attention without a mask";
  if (op.getWindow() > 0)
    text += formatv(" in a window of {0}", op.getWindow());
  text += formatv(", {0} heads of {1}", heads, size);
  if (shared != heads)
    text += formatv(", {0} of key and value", shared);
  double scale = op.getScale().convertToDouble();
  if (std::abs(scale * std::sqrt(double(size)) - 1) > 1e-3)
    text += formatv(", scale {0}", scale);
  if (double cap = op.getSoftcap().convertToDouble(); cap != 0)
    text += formatv(", softcap {0}", cap);
  return text;
}

static std::string describe(Operation *op) {
  if (auto attention = dyn_cast<graph::AttentionOp>(op))
    return describe(attention);
  if (auto rope = dyn_cast<graph::RopeOp>(op))
    return formatv("rope of {0}", shapeOf(rope.getX()).back());
  if (auto norm = dyn_cast<graph::RmsNormOp>(op))
    return formatv("rms_norm of {0}", shapeOf(norm.getX()).back());
  if (isa<graph::SwigluOp, graph::SoftmaxOp, graph::EmbeddingOp, graph::MatmulOp>(op))
    return op->getName().stripDialect().str();
  if (isa<DecomposableOpInterface>(op))
    return op->getName().stripDialect().str();
  return "plain op";
}

std::map<int64_t, std::map<std::string, unsigned>> layerIdioms(func::FuncOp function) {
  std::map<int64_t, std::map<std::string, unsigned>> layers;
  for (Operation &op : function.getBody().front())
    if (!op.hasTrait<OpTrait::IsTerminator>() && !op.hasTrait<OpTrait::ConstantLike>())
      ++layers[layerOf(op.getLoc())][describe(&op)];
  return layers;
}

} // namespace ztc::importer
