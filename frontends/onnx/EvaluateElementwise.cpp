// Arithmetic, comparison, logic, selection and conversion.
#include "frontends/onnx/Evaluator.h"
#include <cmath>

namespace ztc::importer {
namespace {

/// The result of an op over broadcast operands: `type` Undefined means that of the operand `typeOf`. `y` is null where
/// only the shape is wanted, or after a failure.
struct BroadcastFrame {
  HostTensor *y = nullptr;
  llvm::SmallVector<const HostTensor *, 3> operands;
  std::optional<Odometer> odometer;

  BroadcastFrame(KernelContext &c, unsigned count, ElementType type, unsigned typeOf = 0) {
    Shape shape = c.in(0).shape;
    for (unsigned i = 1; i < count; ++i) {
      Shape next;
      if (!broadcastShape(shape, c.in(i).shape, next)) {
        c.fail("operands do not broadcast");
        return;
      }
      shape = next;
    }
    HostTensor *result = c.result(0, type == ElementType::Undefined ? c.in(typeOf).type : type, shape);
    llvm::SmallVector<Shape> strides;
    for (unsigned i = 0; result && i < count; ++i) {
      operands.push_back(&c.data(i));
      if (c.failed())
        return;
      strides.push_back(broadcastStrides(operands.back()->shape, shape));
    }
    if (result) {
      odometer.emplace(shape, strides);
      y = result;
    }
  }
  int64_t at(unsigned operand) const { return odometer->offset(operand); }
};

/// Element by element, in double, in int64, or for 64-bit unsigned operands in uint64.
template <typename RealOp, typename IntegerOp> void arithmetic(KernelContext &c, RealOp realOp, IntegerOp integerOp) {
  BroadcastFrame f(c, 2, ElementType::Undefined);
  for (int64_t i = 0, n = f.y ? f.y->count() : 0; i < n; ++i, f.odometer->advance()) {
    const HostTensor &a = *f.operands[0], &b = *f.operands[1];
    if (f.y->storage() == HostTensor::Storage::Reals)
      f.y->setReal(i, realOp(a.real(f.at(0)), b.real(f.at(1))));
    else if (f.y->type == ElementType::U64)
      f.y->setInteger(i, int64_t(integerOp(uint64_t(a.integer(f.at(0))), uint64_t(b.integer(f.at(1))))));
    else
      f.y->setInteger(i, int64_t(integerOp(a.integer(f.at(0)), b.integer(f.at(1)))));
  }
}

template <typename Compare> void comparison(KernelContext &c, Compare compare) {
  BroadcastFrame f(c, 2, ElementType::Bool);
  for (int64_t i = 0, n = f.y ? f.y->count() : 0; i < n; ++i, f.odometer->advance()) {
    const HostTensor &a = *f.operands[0], &b = *f.operands[1];
    if (a.storage() == HostTensor::Storage::Reals || b.storage() == HostTensor::Storage::Reals)
      f.y->bits[i] = compare(a.real(f.at(0)), b.real(f.at(1)));
    else if (a.type == ElementType::U64)
      f.y->bits[i] = compare(uint64_t(a.integer(f.at(0))), uint64_t(b.integer(f.at(1))));
    else
      f.y->bits[i] = compare(a.integer(f.at(0)), b.integer(f.at(1)));
  }
}

/// Folds a variadic op over its inputs; `divisor`: what the result is divided by.
template <typename RealOp, typename IntegerOp>
void variadic(KernelContext &c, RealOp realOp, IntegerOp integerOp, double divisor = 1) {
  unsigned count = unsigned(c.node.inputs.size());
  BroadcastFrame f(c, count, ElementType::Undefined);
  for (int64_t i = 0, n = f.y ? f.y->count() : 0; i < n; ++i, f.odometer->advance()) {
    bool isReal = f.y->storage() == HostTensor::Storage::Reals, isUnsigned = f.y->type == ElementType::U64;
    double real = f.operands[0]->real(f.at(0));
    int64_t integer = f.operands[0]->integer(f.at(0));
    for (unsigned k = 1; k < count; ++k) {
      if (isReal)
        real = realOp(real, f.operands[k]->real(f.at(k)));
      else if (isUnsigned)
        integer = int64_t(integerOp(uint64_t(integer), uint64_t(f.operands[k]->integer(f.at(k)))));
      else
        integer = int64_t(integerOp(integer, f.operands[k]->integer(f.at(k))));
    }
    isReal ? f.y->setReal(i, real / divisor) : f.y->setInteger(i, integer);
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
  for (int64_t i = 0, n = c.failed() ? 0 : y->count(); i < n; ++i) {
    if (y->storage() == HostTensor::Storage::Bits)
      y->bits[i] = x.real(i) != 0;
    else
      y->setFrom(i, x, i);
  }
}

void where(KernelContext &c) {
  BroadcastFrame f(c, 3, ElementType::Undefined, /*typeOf=*/1);
  for (int64_t i = 0, n = f.y ? f.y->count() : 0; i < n; ++i, f.odometer->advance()) {
    unsigned chosen = f.operands[0]->integer(f.at(0)) ? 1 : 2;
    f.y->setFrom(i, *f.operands[chosen], f.at(chosen));
  }
}

/// A predicate of each element.
template <typename Predicate> void test(KernelContext &c, Predicate predicate) {
  HostTensor *y = c.result(0, ElementType::Bool, c.in(0).shape);
  if (!y)
    return;
  const HostTensor &x = c.data(0);
  for (int64_t i = 0, n = c.failed() ? 0 : y->count(); i < n; ++i)
    y->bits[i] = predicate(x.real(i));
}

void isInfinite(KernelContext &c) {
  bool positive = c.node.integer("detect_positive", 1) != 0, negative = c.node.integer("detect_negative", 1) != 0;
  test(c, [=](double x) { return std::isinf(x) && (x > 0 ? positive : negative); });
}

/// Bounds are attributes up to opset 6, then inputs.
void clip(KernelContext &c) {
  HostTensor *y = c.result(0, c.in(0).type, c.in(0).shape);
  if (!y)
    return;
  const HostTensor &x = c.data(0);
  const HostTensor *low = c.has(1) ? &c.data(1) : nullptr, *high = c.has(2) ? &c.data(2) : nullptr;
  if ((low && low->count() == 0) || (high && high->count() == 0))
    c.fail("a bound has no element");
  HostTensor given(ElementType::F64, {2});
  if (c.node.has("min")) {
    given.reals[0] = c.node.real("min", 0);
    low = low ? low : &given;
  }
  HostTensor above(ElementType::F64, {1});
  if (c.node.has("max")) {
    above.reals[0] = c.node.real("max", 0);
    high = high ? high : &above;
  }
  for (int64_t i = 0, n = c.failed() ? 0 : y->count(); i < n; ++i) {
    if (y->storage() == HostTensor::Storage::Reals) {
      double value = low ? std::max(x.real(i), low->real(0)) : x.real(i);
      y->setReal(i, high ? std::min(value, high->real(0)) : value);
    } else if (y->type == ElementType::U64) {
      uint64_t value = low ? std::max(uint64_t(x.integer(i)), uint64_t(low->integer(0))) : uint64_t(x.integer(i));
      y->setInteger(i, int64_t(high ? std::min(value, uint64_t(high->integer(0))) : value));
    } else {
      int64_t value = low ? std::max(x.integer(i), low->integer(0)) : x.integer(i);
      y->setInteger(i, high ? std::min(value, high->integer(0)) : value);
    }
  }
}

template <typename Integer> Integer quotient(Integer a, Integer b) {
  if (b == 0)
    return 0;
  if constexpr (std::is_signed_v<Integer>)
    if (b == -1)
      return Integer(0 - uint64_t(a));
  return a / b;
}

template <typename Integer> Integer remainderOf(Integer a, Integer b, bool truncated) {
  if (b == 0 || Integer(b + 1) == 0)
    return b == 0 || std::is_signed_v<Integer> ? 0 : a % b;
  Integer r = a % b;
  return !truncated && r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

uint64_t wholePower(uint64_t base, uint64_t exponent) {
  uint64_t result = 1;
  for (; exponent; exponent >>= 1, base *= base)
    if (exponent & 1)
      result *= base;
  return result;
}

/// The result has the base's type; an integer base to a real exponent is computed in double.
void power(KernelContext &c) {
  BroadcastFrame f(c, 2, ElementType::Undefined);
  for (int64_t i = 0, n = f.y ? f.y->count() : 0; i < n; ++i, f.odometer->advance()) {
    const HostTensor &a = *f.operands[0], &b = *f.operands[1];
    bool whole = f.y->storage() != HostTensor::Storage::Reals && b.storage() != HostTensor::Storage::Reals;
    if (whole && b.integer(f.at(1)) >= 0) {
      f.y->setInteger(i, int64_t(wholePower(uint64_t(a.integer(f.at(0))), uint64_t(b.integer(f.at(1))))));
      continue;
    }
    HostTensor value(ElementType::F64, {1});
    value.reals[0] = std::pow(a.real(f.at(0)), b.real(f.at(1)));
    f.y->setFrom(i, value, 0);
  }
}

void modulo(KernelContext &c) {
  bool truncated = c.node.integer("fmod", 0) != 0;
  arithmetic(
      c,
      [=](double a, double b) {
        double r = std::fmod(a, b);
        return !truncated && r != 0 && (r < 0) != (b < 0) ? r + b : r;
      },
      [=](auto a, auto b) { return remainderOf(a, b, truncated); });
}

void shift(KernelContext &c) {
  bool left = c.node.text("direction", "LEFT") == "LEFT";
  arithmetic(
      c, [](double, double) { return 0.0; },
      [=](auto a, auto b) {
        uint64_t x = uint64_t(a), by = uint64_t(b);
        return by > 63 ? uint64_t(0) : left ? x << by : x >> by;
      });
}

void complement(KernelContext &c) {
  HostTensor *y = c.result(0, c.in(0).type, c.in(0).shape);
  if (!y)
    return;
  const HostTensor &x = c.data(0);
  for (int64_t i = 0, n = c.failed() ? 0 : y->count(); i < n; ++i)
    y->setInteger(i, ~x.integer(i));
}

double greater(double a, double b) {
  return std::isnan(a) || std::isnan(b) ? NAN : std::max(a, b);
}
double lesser(double a, double b) {
  return std::isnan(a) || std::isnan(b) ? NAN : std::min(a, b);
}

/// Wraps without the undefined overflow of signed integers.
template <typename T> uint64_t bitsOf(T x) {
  return uint64_t(x);
}

} // namespace

void addElementwiseKernels(llvm::StringMap<Kernel> &t) {
  auto add = [&](const char *op, void (*run)(KernelContext &)) { t[op] = Kernel{run, 0, false, 0}; };
  add("Add", [](KernelContext &c) {
    arithmetic(c, [](double a, double b) { return a + b; }, [](auto a, auto b) { return bitsOf(a) + bitsOf(b); });
  });
  add("Sub", [](KernelContext &c) {
    arithmetic(c, [](double a, double b) { return a - b; }, [](auto a, auto b) { return bitsOf(a) - bitsOf(b); });
  });
  add("Mul", [](KernelContext &c) {
    arithmetic(c, [](double a, double b) { return a * b; }, [](auto a, auto b) { return bitsOf(a) * bitsOf(b); });
  });
  add("Div", [](KernelContext &c) {
    arithmetic(c, [](double a, double b) { return a / b; }, [](auto a, auto b) { return quotient(a, b); });
  });
  add("Pow", power);
  add("Mod", modulo);
  add("BitShift", shift);
  add("BitwiseNot", complement);
  add("And", [](KernelContext &c) {
    arithmetic(c, [](double, double) { return 0.0; }, [](auto a, auto b) { return a & b; });
  });
  add("Or", [](KernelContext &c) {
    arithmetic(c, [](double, double) { return 0.0; }, [](auto a, auto b) { return a | b; });
  });
  add("Xor", [](KernelContext &c) {
    arithmetic(c, [](double, double) { return 0.0; }, [](auto a, auto b) { return a ^ b; });
  });
  t["BitwiseAnd"] = t["And"];
  t["BitwiseOr"] = t["Or"];
  t["BitwiseXor"] = t["Xor"];
  add("Max", [](KernelContext &c) { variadic(c, greater, [](auto a, auto b) { return std::max(a, b); }); });
  add("Min", [](KernelContext &c) { variadic(c, lesser, [](auto a, auto b) { return std::min(a, b); }); });
  add("Sum", [](KernelContext &c) {
    variadic(c, [](double a, double b) { return a + b; }, [](auto a, auto b) { return bitsOf(a) + bitsOf(b); });
  });
  add("Mean", [](KernelContext &c) {
    variadic(
        c, [](double a, double b) { return a + b; }, [](auto a, auto b) { return bitsOf(a) + bitsOf(b); },
        double(c.node.inputs.size()));
  });
  add("Equal", [](KernelContext &c) { comparison(c, [](auto a, auto b) { return a == b; }); });
  add("Greater", [](KernelContext &c) { comparison(c, [](auto a, auto b) { return a > b; }); });
  add("GreaterOrEqual", [](KernelContext &c) { comparison(c, [](auto a, auto b) { return a >= b; }); });
  add("Less", [](KernelContext &c) { comparison(c, [](auto a, auto b) { return a < b; }); });
  add("LessOrEqual", [](KernelContext &c) { comparison(c, [](auto a, auto b) { return a <= b; }); });
  add("Not", [](KernelContext &c) { test(c, [](double x) { return x == 0; }); });
  add("IsNaN", [](KernelContext &c) { test(c, [](double x) { return std::isnan(x); }); });
  add("IsInf", isInfinite);
  add("Where", where);
  add("Clip", clip);
  add("PRelu", [](KernelContext &c) {
    arithmetic(
        c, [](double x, double slope) { return x < 0 ? x * slope : x; },
        [](auto x, auto slope) { return x < 0 ? bitsOf(x) * bitsOf(slope) : bitsOf(x); });
  });
  add("Cast", [](KernelContext &c) { convert(c, static_cast<ElementType>(c.node.integer("to", 0))); });
  t["CastLike"] = {[](KernelContext &c) { convert(c, c.in(1).type); }, 0, false, /*typeInputs=*/2};
}

} // namespace ztc::importer
