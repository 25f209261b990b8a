// Emission of onnxruntime's mixture of experts (com.microsoft::MoE): every expert computes every token, and its share,
// 0 where it was not chosen, multiplies what it adds. The passes route the tokens (passes/Autodiff/RouteExperts.cpp).
#include "frontends/onnx/EmitPlaces.h"
#include "frontends/onnx/Formulas.h"
#include "runtime/Core/ShapeText.h"
#include "llvm/ADT/StringSwitch.h"
#include <limits>

using namespace mlir;

namespace ztc::importer {
namespace {

using graph::Expr;

enum class Activation { Relu, Gelu, Silu, Swiglu, Identity };

std::optional<Activation> activationOf(StringRef name) {
  return llvm::StringSwitch<std::optional<Activation>>(name)
      .Case("relu", Activation::Relu)
      .Case("gelu", Activation::Gelu)
      .Case("silu", Activation::Silu)
      .Case("swiglu", Activation::Swiglu)
      .Case("identity", Activation::Identity)
      .Default(std::nullopt);
}

/// A mixture's inputs as the operator numbers them.
enum Input : unsigned { Rows, Router, First, FirstBias, Second, SecondBias, Third, ThirdBias };
constexpr const char *kInputNames[] = {"input",
                                       "router_probs",
                                       "fc1_experts_weights",
                                       "fc1_experts_bias",
                                       "fc2_experts_weights",
                                       "fc2_experts_bias",
                                       "fc3_experts_weights",
                                       "fc3_experts_bias"};

class MixtureOfExperts {
public:
  explicit MixtureOfExperts(Emitter &e) : e(e) {}

  LogicalResult emit() {
    std::optional<Activation> named = activationOf(e.node->text("activation_type", "relu"));
    if (!named)
      return e.fail("has activation '" + e.node->text("activation_type", "") + "', which the operator does not know");
    activation = *named;
    if (e.node->integer("use_sparse_mixer", 0))
      return e.fail("chooses experts by the sparse mixer (use_sparse_mixer), which ztc does not emit");
    mlir::Value x = e.operand(Rows), logits = x ? e.operand(Router) : nullptr;
    if (!logits || !readOperands())
      return failure();
    const int64_t hidden = shapeOf(x).back();
    const int64_t tokens = typeOf(x).getNumElements() / hidden;
    if (!fits(hidden) || !fitsRouter(tokens, shapeOf(logits)))
      return failure();
    Expr rows = reshape(e.expr(x), {tokens, hidden}), all = shares(reshape(e.expr(logits), {tokens, experts}));
    std::optional<Expr> sum;
    for (int64_t expert = 0; expert < experts; ++expert) {
      Expr y = term(rows, expert);
      y = y * broadcastLike(sliceLast(all, expert, 1), y);
      sum = sum ? *sum + y : y;
    }
    e.define(0, reshape(*sum, e.outputShape()).value());
    return success();
  }

private:
  /// False after a diagnostic.
  bool refuse(const llvm::Twine &message) {
    (void)e.fail(message);
    return false;
  }

  bool isFused() const { return activation == Activation::Swiglu && fusion != 0; }

  bool readOperands() {
    for (unsigned input : {First, FirstBias, Second, SecondBias, Third, ThirdBias}) {
      if (!e.node->hasInput(input))
        continue;
      operands[input] = e.operand(input);
      if (!operands[input])
        return false;
      if (typeOf(operands[input]).getRank() != (isBias(input) ? 2 : 3))
        return refuse(llvm::Twine(kInputNames[input]) + " has shape " + shapeText(shapeOf(operands[input])) +
                      "; weights of experts are (experts, outputs, inputs), biases (experts, outputs)");
    }
    return true;
  }
  static bool isBias(unsigned input) { return input == FirstBias || input == SecondBias || input == ThirdBias; }

  /// Whether the weights' shapes are those of experts from `hidden` to `hidden`.
  bool fits(int64_t hidden) {
    fusion = e.node->integer("swiglu_fusion", 0);
    if (fusion < 0 || fusion > 2)
      return refuse("has swiglu_fusion " + llvm::Twine(fusion) + "; 0, 1 and 2 are known");
    if (activation == Activation::Swiglu && !isFused() && !operands[Third])
      return refuse("has SwiGLU in two products (swiglu_fusion 0), and no fc3_experts_weights");
    experts = shapeOf(operands[First])[0];
    width = shapeOf(operands[Second])[2];
    const int64_t firstWidth = (isFused() ? 2 : 1) * width;
    const std::pair<unsigned, SmallVector<int64_t>> wanted[] = {
        {First, {experts, firstWidth, hidden}}, {FirstBias, {experts, firstWidth}}, {Second, {experts, hidden, width}},
        {SecondBias, {experts, hidden}},        {Third, {experts, width, hidden}},  {ThirdBias, {experts, width}}};
    for (const auto &[input, shape] : wanted)
      if (operands[input] && shapeOf(operands[input]) != ArrayRef(shape))
        return refuse(llvm::Twine(kInputNames[input]) + " has shape " + shapeText(shapeOf(operands[input])) +
                      "; rows of " + llvm::Twine(hidden) + " and experts of width " + llvm::Twine(width) + " want " +
                      shapeText(shape));
    return true;
  }

  bool fitsRouter(int64_t tokens, ArrayRef<int64_t> shape) {
    perToken = e.node->integer("k", 1);
    if (perToken < 1 || perToken > experts)
      return refuse("chooses " + llvm::Twine(perToken) + " of " + llvm::Twine(experts) + " experts");
    if (shape.empty() || shape.back() != experts || computeProduct(shape) != tokens * experts)
      return refuse("router_probs are not (tokens, experts)");
    return true;
  }

  /// (T, E): softmax of the logits where an expert is among the best, else 0.
  Expr shares(const Expr &logits) {
    Expr all = logits.with(graph::SoftmaxOp::create(e.builder, e.loc, logits.value()));
    LargestOfRows best = largestOfRows(all, all, perToken);
    Expr chosen = concat(best.values, 1);
    if (e.node->integer("normalize_routing_weights", 0))
      chosen = chosen / broadcastLike(reduceSumLast(chosen), chosen);
    return placedAmongZeros(e, concat(best.indices, 1), chosen, experts);
  }

  /// x W_e^T + b_e of the experts' `weights`, which the bias follows.
  Expr product(const Expr &x, unsigned weights, int64_t expert) {
    ArrayRef<int64_t> shape = shapeOf(operands[weights]);
    Expr matrix =
        reshape(slice(e.expr(operands[weights]), {expert, 0, 0}, {1, shape[1], shape[2]}), {shape[1], shape[2]});
    Expr y = matmul(x, matrix, false, /*transposeB=*/true);
    if (mlir::Value bias = operands[weights + 1])
      y = y + broadcastLike(slice(e.expr(bias), {expert, 0}, {1, shape[1]}), y);
    return y;
  }

  Expr term(const Expr &x, int64_t expert) {
    Expr first = product(x, First, expert);
    if (isFused()) {
      const auto [gate, linear] = halves(first);
      return product(swiglu(gate, linear), Second, expert);
    }
    if (activation == Activation::Swiglu)
      return product(swiglu(first, product(x, Third, expert)), Second, expert);
    Expr y = activated(first);
    if (operands[Third])
      y = y * product(x, Third, expert);
    return product(y, Second, expert);
  }

  /// Gate and linear part of one product: by turns (swiglu_fusion 1), or one after the other.
  std::pair<Expr, Expr> halves(const Expr &both) {
    if (fusion == 2)
      return {sliceLast(both, 0, width), sliceLast(both, width, width)};
    const int64_t tokens = both.dim(0);
    Expr pairs = reshape(both, {tokens, width, 2});
    auto part = [&](int64_t i) { return reshape(sliceLast(pairs, i, 1), {tokens, width}); };
    return {part(0), part(1)};
  }

  /// G sigmoid(alpha G) (L + beta), G = min(gate, limit), L within [-limit, limit] (onnxruntime's ContribOperators.md).
  Expr swiglu(Expr gate, Expr linear) {
    const double limit = e.node->real("swiglu_limit", std::numeric_limits<double>::infinity());
    const double alpha = e.node->real("activation_alpha", 1), beta = e.node->real("activation_beta", 0);
    if (limit < std::numeric_limits<double>::infinity()) {
      gate = smaller(gate, constantLike(gate, limit));
      linear = larger(smaller(linear, constantLike(linear, limit)), constantLike(linear, -limit));
    }
    Expr sigmoids = sigmoid(alpha == 1 ? gate : gate * alpha);
    return gate * sigmoids * (beta == 0 ? linear : linear + beta);
  }

  Expr activated(const Expr &x) {
    switch (activation) {
    case Activation::Relu:
      return larger(zeroLike(x), x);
    case Activation::Gelu:
      return geluByTanh(x);
    case Activation::Silu:
      return x * sigmoid(x);
    case Activation::Swiglu:
    case Activation::Identity:
      break;
    }
    return x;
  }

  Emitter &e;
  Activation activation = Activation::Relu;
  mlir::Value operands[ThirdBias + 1];
  int64_t experts = 0, width = 0, perToken = 1, fusion = 0;
};

LogicalResult mixtureOfExperts(Emitter &e) {
  return MixtureOfExperts(e).emit();
}

} // namespace

void addExpertEmission(llvm::StringMap<EmitFunction> &t) {
  t["com.microsoft::MoE"] = mixtureOfExperts;
}

} // namespace ztc::importer
