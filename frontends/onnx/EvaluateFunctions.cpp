// Functions of one number: elementary ones and activations.
#include "frontends/onnx/Evaluator.h"
#include <cmath>

namespace ztc::importer {
namespace {

/// Computed in double and rounded once; integers go through double too.
template <typename Function> void map(KernelContext &c, Function function) {
  HostTensor *y = c.result(0, c.in(0).type, c.in(0).shape);
  if (!y)
    return;
  const HostTensor &x = c.data(0);
  HostTensor value(ElementType::F64, {1});
  for (int64_t i = 0, n = c.failed() ? 0 : y->count(); i < n; ++i) {
    value.reals[0] = function(x.real(i));
    y->setFrom(i, value, 0);
  }
}

/// Integers stay exact.
template <typename Real, typename Integer> void mapExact(KernelContext &c, Real real, Integer integer) {
  if (isFloat(c.in(0).type))
    return map(c, real);
  HostTensor *y = c.result(0, c.in(0).type, c.in(0).shape);
  if (!y)
    return;
  const HostTensor &x = c.data(0);
  for (int64_t i = 0, n = c.failed() ? 0 : y->count(); i < n; ++i)
    y->setInteger(i, integer(x.integer(i)));
}

template <double (*function)(double)> void plain(KernelContext &c) {
  map(c, function);
}

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}
double softplus(double x) {
  return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x)));
}
double reciprocal(double x) {
  return 1 / x;
}
double relu(double x) {
  return x < 0 ? 0 : x;
}
double softsign(double x) {
  return x / (1 + std::fabs(x));
}
double mish(double x) {
  return x * std::tanh(softplus(x));
}
double hardSwish(double x) {
  return x * std::max(0.0, std::min(1.0, x / 6 + 0.5));
}

void sign(KernelContext &c) {
  mapExact(
      c, [](double x) { return x > 0   ? 1.0
                               : x < 0 ? -1.0
                                       : x; },
      [&](int64_t x) {
        return c.in(0).type == ElementType::U64 ? int64_t(x != 0) : x > 0 ? 1 : x < 0 ? -1 : 0;
      });
}

void gelu(KernelContext &c) {
  if (c.node.text("approximate", "none") == "tanh")
    return map(c, [](double x) { return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))); });
  map(c, [](double x) { return 0.5 * x * (1 + std::erf(x * 0.7071067811865476)); });
}

void swish(KernelContext &c) {
  double alpha = c.node.real("alpha", 1);
  map(c, [=](double x) { return x * sigmoid(alpha * x); });
}

void leakyRelu(KernelContext &c) {
  double alpha = c.node.real("alpha", 0.01);
  map(c, [=](double x) { return x < 0 ? alpha * x : x; });
}

void thresholdedRelu(KernelContext &c) {
  double alpha = c.node.real("alpha", 1);
  map(c, [=](double x) { return x > alpha ? x : 0; });
}

void elu(KernelContext &c) {
  double alpha = c.node.real("alpha", 1);
  map(c, [=](double x) { return x < 0 ? alpha * std::expm1(x) : x; });
}

void selu(KernelContext &c) {
  double alpha = c.node.real("alpha", 1.67326319217681884765625),
         gamma = c.node.real("gamma", 1.05070102214813232421875);
  map(c, [=](double x) { return gamma * (x > 0 ? x : alpha * std::expm1(x)); });
}

void celu(KernelContext &c) {
  double alpha = c.node.real("alpha", 1);
  map(c, [=](double x) { return std::max(0.0, x) + std::min(0.0, alpha * std::expm1(x / alpha)); });
}

void hardSigmoid(KernelContext &c) {
  double alpha = c.node.real("alpha", 0.2), beta = c.node.real("beta", 0.5);
  map(c, [=](double x) { return std::max(0.0, std::min(1.0, alpha * x + beta)); });
}

void shrink(KernelContext &c) {
  double lambda = c.node.real("lambd", 0.5), bias = c.node.real("bias", 0);
  map(c, [=](double x) { return x < -lambda ? x + bias : x > lambda ? x - bias : 0; });
}

} // namespace

void addFunctionKernels(llvm::StringMap<Kernel> &t) {
  auto add = [&](const char *op, void (*run)(KernelContext &)) { t[op] = Kernel{run, 0, false, 0}; };
  add("Neg", [](KernelContext &c) {
    mapExact(c, [](double x) { return -x; }, [](int64_t x) { return int64_t(0 - uint64_t(x)); });
  });
  add("Abs", [](KernelContext &c) {
    bool isUnsigned = c.in(0).type == ElementType::U64;
    mapExact(
        c, [](double x) { return std::fabs(x); },
        [=](int64_t x) { return x < 0 && !isUnsigned ? int64_t(0 - uint64_t(x)) : x; });
  });
  add("Sign", sign);
  add("Sqrt", plain<std::sqrt>);
  add("Reciprocal", plain<reciprocal>);
  add("Exp", plain<std::exp>);
  add("Log", plain<std::log>);
  add("Sin", plain<std::sin>);
  add("Cos", plain<std::cos>);
  add("Tan", plain<std::tan>);
  add("Asin", plain<std::asin>);
  add("Acos", plain<std::acos>);
  add("Atan", plain<std::atan>);
  add("Sinh", plain<std::sinh>);
  add("Cosh", plain<std::cosh>);
  add("Tanh", plain<std::tanh>);
  add("Asinh", plain<std::asinh>);
  add("Acosh", plain<std::acosh>);
  add("Atanh", plain<std::atanh>);
  add("Erf", plain<std::erf>);
  add("Floor", plain<std::floor>);
  add("Ceil", plain<std::ceil>);
  add("Round", plain<std::nearbyint>);
  add("Sigmoid", plain<sigmoid>);
  add("Softplus", plain<softplus>);
  add("Softsign", plain<softsign>);
  add("Mish", plain<mish>);
  add("HardSwish", plain<hardSwish>);
  add("Relu", plain<relu>);
  add("Gelu", gelu);
  add("Swish", swish);
  add("LeakyRelu", leakyRelu);
  add("ThresholdedRelu", thresholdedRelu);
  add("Elu", elu);
  add("Selu", selu);
  add("Celu", celu);
  add("HardSigmoid", hardSigmoid);
  add("Shrink", shrink);
}

} // namespace ztc::importer
