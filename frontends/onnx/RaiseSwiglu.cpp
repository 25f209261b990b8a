// gate * sigmoid(gate) * up becomes swiglu.
#include "frontends/onnx/Raise.h"

using namespace mlir;

namespace ztc::importer {
namespace {

/// g where `value` is g * sigmoid(g).
Value siluOperand(Value value) {
  auto product = value.getDefiningOp<graph::MulOp>();
  Value gate;
  if (product)
    eitherOrder(product, [&](Value x, Value factor) {
      auto sigmoid = factor.getDefiningOp<graph::SigmoidOp>();
      if (!sigmoid || sigmoid.getX() != x)
        return false;
      gate = x;
      return true;
    });
  return gate;
}

Value gatedProduct(OpBuilder &builder, graph::MulOp product) {
  Value result;
  eitherOrder(product, [&](Value silu, Value up) {
    Value gate = siluOperand(silu);
    if (gate)
      result = graph::SwigluOp::create(builder, product.getLoc(), gate, up);
    return gate != nullptr;
  });
  return result;
}

} // namespace

unsigned raiseSwiglu(func::FuncOp function) {
  return forEachOp<graph::MulOp>(function, gatedProduct);
}

} // namespace ztc::importer
