// Arithmetic, comparison, logic and conversion.
#include "frontends/onnx/Evaluator.h"
#include <cmath>

namespace ztc::importer {
namespace {

/// The result of a binary op over broadcast operands: `type` Undefined means the operands' own. Null where only the
/// shape is wanted.
struct BinaryFrame {
  const HostTensor *a = nullptr, *b = nullptr;
  HostTensor *y = nullptr;
  std::optional<Odometer> odometer;

  BinaryFrame(KernelContext &c, ElementType type) {
    Shape shape;
    if (!broadcastShape(c.in(0).shape, c.in(1).shape, shape)) {
      c.fail("operands do not broadcast");
      return;
    }
    y = c.result(0, type == ElementType::Undefined ? c.in(0).type : type, shape);
    if (!y)
      return;
    a = &c.data(0);
    b = &c.data(1);
    if (c.failed()) {
      y = nullptr;
      return;
    }
    odometer.emplace(shape,
                     llvm::ArrayRef<Shape>{broadcastStrides(a->shape, shape), broadcastStrides(b->shape, shape)});
  }
};

template <typename RealOp, typename IntegerOp> void arithmetic(KernelContext &c, RealOp realOp, IntegerOp integerOp) {
  BinaryFrame f(c, ElementType::Undefined);
  if (!f.y)
    return;
  for (int64_t i = 0, n = f.y->count(); i < n; ++i, f.odometer->advance()) {
    int64_t ia = f.odometer->offset(0), ib = f.odometer->offset(1);
    if (f.y->storage() == HostTensor::Storage::Reals)
      f.y->reals[i] = roundTo(realOp(f.a->real(ia), f.b->real(ib)), f.y->type);
    else if (f.y->storage() == HostTensor::Storage::Integers)
      f.y->integers[i] = wrapTo(integerOp(f.a->integers[ia], f.b->integer(ib)), f.y->type);
    else
      f.y->bits[i] = integerOp(int64_t(f.a->bits[ia]), f.b->integer(ib)) != 0;
  }
}

template <typename Compare> void comparison(KernelContext &c, Compare compare) {
  BinaryFrame f(c, ElementType::Bool);
  if (!f.y)
    return;
  bool reals = f.a->storage() == HostTensor::Storage::Reals;
  for (int64_t i = 0, n = f.y->count(); i < n; ++i, f.odometer->advance()) {
    int64_t ia = f.odometer->offset(0), ib = f.odometer->offset(1);
    f.y->bits[i] = reals ? compare(f.a->reals[ia], f.b->real(ib)) : compare(f.a->integer(ia), f.b->integer(ib));
  }
}

/// Integer sums and products wrap around, as elements of 64 bits do.
int64_t add(int64_t a, int64_t b) {
  return int64_t(uint64_t(a) + uint64_t(b));
}
int64_t subtract(int64_t a, int64_t b) {
  return int64_t(uint64_t(a) - uint64_t(b));
}
int64_t multiply(int64_t a, int64_t b) {
  return int64_t(uint64_t(a) * uint64_t(b));
}

/// `integerOp` serves the few ops that take integers too.
template <typename RealOp, typename IntegerOp> void unary(KernelContext &c, RealOp op, IntegerOp integerOp) {
  HostTensor *y = c.result(0, c.in(0).type, c.in(0).shape);
  if (!y)
    return;
  const HostTensor &x = c.data(0);
  if (c.failed())
    return;
  for (int64_t i = 0, n = y->count(); i < n; ++i) {
    if (y->storage() == HostTensor::Storage::Reals)
      y->reals[i] = roundTo(op(x.reals[i]), y->type);
    else
      y->integers[i] = wrapTo(integerOp(x.integers[i]), y->type);
  }
}

template <typename RealOp> void unary(KernelContext &c, RealOp op) {
  unary(c, op, [](int64_t x) { return x; });
}

/// Folds a variadic op (Max, Min, Sum) over its inputs.
template <typename RealOp, typename IntegerOp> void variadic(KernelContext &c, RealOp realOp, IntegerOp integerOp) {
  Shape shape = c.in(0).shape;
  for (unsigned i = 1; i < c.node.inputs.size(); ++i) {
    Shape next;
    if (!broadcastShape(shape, c.in(i).shape, next)) {
      c.fail("operands do not broadcast");
      return;
    }
    shape = next;
  }
  HostTensor *y = c.result(0, c.in(0).type, shape);
  for (unsigned i = 0; y && i < c.node.inputs.size(); ++i) {
    const HostTensor &x = c.data(i);
    if (c.failed())
      return;
    Odometer odometer(shape, {broadcastStrides(x.shape, shape)});
    for (int64_t e = 0, n = y->count(); e < n; ++e, odometer.advance()) {
      int64_t from = odometer.offset(0);
      if (y->storage() == HostTensor::Storage::Reals)
        y->reals[e] = i == 0 ? x.reals[from] : roundTo(realOp(y->reals[e], x.reals[from]), y->type);
      else if (y->storage() == HostTensor::Storage::Integers)
        y->integers[e] = i == 0 ? x.integers[from] : wrapTo(integerOp(y->integers[e], x.integers[from]), y->type);
      else
        y->bits[e] = i == 0 ? x.bits[from] : integerOp(int64_t(y->bits[e]), int64_t(x.bits[from])) != 0;
    }
  }
}

void convert(KernelContext &c, ElementType type) {
  if (!elementBytes(type)) {
    c.fail("converts to element type " + llvm::Twine(int(type)) + ", which ztc does not read");
    return;
  }
  if (type == c.in(0).type) {
    c.shape(0, type, c.in(0).shape);
    c.share(0, c.in(0).data);
    return;
  }
  HostTensor *y = c.result(0, type, c.in(0).shape);
  if (!y)
    return;
  const HostTensor &x = c.data(0);
  if (c.failed())
    return;
  for (int64_t i = 0, n = y->count(); i < n; ++i) {
    if (y->storage() == HostTensor::Storage::Reals)
      y->reals[i] = roundTo(x.real(i), type);
    else if (y->storage() == HostTensor::Storage::Bits)
      y->bits[i] = x.real(i) != 0;
    else
      y->integers[i] = wrapTo(x.integer(i), type);
  }
}

void where(KernelContext &c) {
  Shape shape, both;
  if (!broadcastShape(c.in(1).shape, c.in(2).shape, both) || !broadcastShape(c.in(0).shape, both, shape)) {
    c.fail("operands do not broadcast");
    return;
  }
  HostTensor *y = c.result(0, c.in(1).type, shape);
  if (!y)
    return;
  const HostTensor &condition = c.data(0), &a = c.data(1), &b = c.data(2);
  if (c.failed())
    return;
  Odometer odometer(shape, {broadcastStrides(condition.shape, shape), broadcastStrides(a.shape, shape),
                            broadcastStrides(b.shape, shape)});
  for (int64_t i = 0, n = y->count(); i < n; ++i, odometer.advance()) {
    bool first = condition.bits[odometer.offset(0)];
    const HostTensor &chosen = first ? a : b;
    int64_t from = odometer.offset(first ? 1 : 2);
    if (y->storage() == HostTensor::Storage::Reals)
      y->reals[i] = chosen.reals[from];
    else if (y->storage() == HostTensor::Storage::Integers)
      y->integers[i] = chosen.integers[from];
    else
      y->bits[i] = chosen.bits[from];
  }
}

void logicalNot(KernelContext &c) {
  HostTensor *y = c.result(0, ElementType::Bool, c.in(0).shape);
  if (!y)
    return;
  const HostTensor &x = c.data(0);
  for (int64_t i = 0, n = c.failed() ? 0 : y->count(); i < n; ++i)
    y->bits[i] = !x.bits[i];
}

void isNaN(KernelContext &c) {
  HostTensor *y = c.result(0, ElementType::Bool, c.in(0).shape);
  if (!y)
    return;
  const HostTensor &x = c.data(0);
  for (int64_t i = 0, n = c.failed() ? 0 : y->count(); i < n; ++i)
    y->bits[i] = std::isnan(x.reals[i]);
}

void clip(KernelContext &c) {
  HostTensor *y = c.result(0, c.in(0).type, c.in(0).shape);
  if (!y)
    return;
  const HostTensor &x = c.data(0);
  const HostTensor *low = c.has(1) ? c.scalar(1) : nullptr, *high = c.has(2) ? c.scalar(2) : nullptr;
  for (int64_t i = 0, n = c.failed() ? 0 : y->count(); i < n; ++i) {
    if (y->storage() == HostTensor::Storage::Reals) {
      double value = low ? std::max(x.reals[i], low->real(0)) : x.reals[i];
      y->reals[i] = high ? std::min(value, high->real(0)) : value;
    } else {
      int64_t value = low ? std::max(x.integers[i], low->integer(0)) : x.integers[i];
      y->integers[i] = high ? std::min(value, high->integer(0)) : value;
    }
  }
}

int64_t divide(int64_t a, int64_t b) {
  return b == 0 || (b == -1 && a == INT64_MIN) ? 0 : a / b;
}

int64_t integerPower(int64_t base, int64_t exponent) {
  int64_t result = 1;
  for (; exponent > 0 && exponent < 64; --exponent)
    result = int64_t(uint64_t(result) * uint64_t(base));
  return result;
}

void modulo(KernelContext &c) {
  bool truncated = c.node.integer("fmod", 0) != 0;
  auto floorMod = [](int64_t a, int64_t b) {
    int64_t r = b == 0 || b == -1 ? 0 : a % b; // INT64_MIN % -1 traps
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
  };
  auto truncMod = [](int64_t a, int64_t b) { return b == 0 || b == -1 ? int64_t(0) : a % b; };
  auto real = [](double a, double b) { return std::fmod(a, b); };
  truncated ? arithmetic(c, real, truncMod) : arithmetic(c, real, floorMod);
}

} // namespace

void addElementwiseKernels(llvm::StringMap<Kernel> &t) {
  auto addKernel = [&](const char *op, void (*run)(KernelContext &)) { t[op] = Kernel{run, 0, false, 0}; };
  addKernel("Add", [](KernelContext &c) { arithmetic(c, [](double a, double b) { return a + b; }, add); });
  addKernel("Sub", [](KernelContext &c) { arithmetic(c, [](double a, double b) { return a - b; }, subtract); });
  addKernel("Mul", [](KernelContext &c) { arithmetic(c, [](double a, double b) { return a * b; }, multiply); });
  addKernel("Div", [](KernelContext &c) { arithmetic(c, [](double a, double b) { return a / b; }, divide); });
  addKernel("Pow",
            [](KernelContext &c) { arithmetic(c, [](double a, double b) { return std::pow(a, b); }, integerPower); });
  addKernel("Mod", modulo);
  addKernel("And", [](KernelContext &c) {
    arithmetic(c, [](double, double) { return 0.0; }, [](int64_t a, int64_t b) { return a & b; });
  });
  addKernel("Or", [](KernelContext &c) {
    arithmetic(c, [](double, double) { return 0.0; }, [](int64_t a, int64_t b) { return a | b; });
  });
  addKernel("Xor", [](KernelContext &c) {
    arithmetic(c, [](double, double) { return 0.0; }, [](int64_t a, int64_t b) { return a ^ b; });
  });
  t["BitwiseAnd"] = t["And"];
  t["BitwiseOr"] = t["Or"];
  t["BitwiseXor"] = t["Xor"];
  addKernel("Max", [](KernelContext &c) {
    variadic(c, [](double a, double b) { return std::max(a, b); }, [](int64_t a, int64_t b) { return std::max(a, b); });
  });
  addKernel("Min", [](KernelContext &c) {
    variadic(c, [](double a, double b) { return std::min(a, b); }, [](int64_t a, int64_t b) { return std::min(a, b); });
  });
  addKernel("Sum", [](KernelContext &c) { variadic(c, [](double a, double b) { return a + b; }, add); });
  addKernel("Equal", [](KernelContext &c) { comparison(c, [](auto a, auto b) { return a == b; }); });
  addKernel("Greater", [](KernelContext &c) { comparison(c, [](auto a, auto b) { return a > b; }); });
  addKernel("GreaterOrEqual", [](KernelContext &c) { comparison(c, [](auto a, auto b) { return a >= b; }); });
  addKernel("Less", [](KernelContext &c) { comparison(c, [](auto a, auto b) { return a < b; }); });
  addKernel("LessOrEqual", [](KernelContext &c) { comparison(c, [](auto a, auto b) { return a <= b; }); });
  addKernel("Not", logicalNot);
  addKernel("IsNaN", isNaN);
  addKernel("Where", where);
  addKernel("Clip", clip);
  addKernel("Cast", [](KernelContext &c) { convert(c, static_cast<ElementType>(c.node.integer("to", 0))); });
  t["CastLike"] = {[](KernelContext &c) { convert(c, c.in(1).type); }, 0, false, /*typeInputs=*/2};
  addKernel("Neg",
            [](KernelContext &c) { unary(c, [](double x) { return -x; }, [](int64_t x) { return subtract(0, x); }); });
  addKernel("Abs", [](KernelContext &c) {
    unary(c, [](double x) { return std::fabs(x); }, [](int64_t x) { return x < 0 ? subtract(0, x) : x; });
  });
  addKernel("Sign", [](KernelContext &c) {
    unary(
        c, [](double x) { return x > 0   ? 1.0
                                 : x < 0 ? -1.0
                                         : x; },
        [](int64_t x) { return int64_t(x > 0) - int64_t(x < 0); });
  });
  addKernel("Sqrt", [](KernelContext &c) { unary(c, [](double x) { return std::sqrt(x); }); });
  addKernel("Reciprocal", [](KernelContext &c) { unary(c, [](double x) { return 1 / x; }); });
  addKernel("Exp", [](KernelContext &c) { unary(c, [](double x) { return std::exp(x); }); });
  addKernel("Log", [](KernelContext &c) { unary(c, [](double x) { return std::log(x); }); });
  addKernel("Cos", [](KernelContext &c) { unary(c, [](double x) { return std::cos(x); }); });
  addKernel("Sin", [](KernelContext &c) { unary(c, [](double x) { return std::sin(x); }); });
  addKernel("Tanh", [](KernelContext &c) { unary(c, [](double x) { return std::tanh(x); }); });
  addKernel("Erf", [](KernelContext &c) { unary(c, [](double x) { return std::erf(x); }); });
  addKernel("Sigmoid", [](KernelContext &c) { unary(c, [](double x) { return 1 / (1 + std::exp(-x)); }); });
  addKernel("Relu", [](KernelContext &c) {
    unary(c, [](double x) { return std::max(x, 0.0); }, [](int64_t x) { return std::max<int64_t>(x, 0); });
  });
  addKernel("Floor", [](KernelContext &c) { unary(c, [](double x) { return std::floor(x); }); });
  addKernel("Ceil", [](KernelContext &c) { unary(c, [](double x) { return std::ceil(x); }); });
  addKernel("Round", [](KernelContext &c) { unary(c, [](double x) { return std::nearbyint(x); }); });
}

} // namespace ztc::importer
