// Reductions over axes, and the index of the largest element.
#include "frontends/onnx/Evaluator.h"
#include <cmath>
#include <limits>

using llvm::ArrayRef;

namespace ztc::importer {
namespace {

enum class Reduction { Sum, Mean, Max, Min, Product, L1, L2, LogSum, LogSumExp, SumSquare };

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double start(Reduction kind) {
  return kind == Reduction::Product                               ? 1
         : kind == Reduction::Max || kind == Reduction::LogSumExp ? -kInfinity
         : kind == Reduction::Min                                 ? kInfinity
                                                                  : 0;
}

/// One more element; LogSumExp keeps (largest, sum of exp relative to it).
void combine(Reduction kind, double x, double &sum, double &scaled) {
  switch (kind) {
  case Reduction::Max:
    sum = std::isnan(x) || std::isnan(sum) ? NAN : std::max(sum, x);
    return;
  case Reduction::Min:
    sum = std::isnan(x) || std::isnan(sum) ? NAN : std::min(sum, x);
    return;
  case Reduction::Product:
    sum *= x;
    return;
  case Reduction::L1:
    sum += std::fabs(x);
    return;
  case Reduction::L2:
  case Reduction::SumSquare:
    sum += x * x;
    return;
  case Reduction::LogSumExp:
    if (x > sum) {
      scaled = scaled * (sum == -kInfinity ? 0 : std::exp(sum - x)) + 1;
      sum = x;
    } else if (x > -kInfinity || std::isnan(x)) {
      scaled += x == sum ? 1 : std::exp(x - sum);
    }
    return;
  default:
    sum += x;
  }
}

double finish(Reduction kind, double sum, double scaled, int64_t count) {
  switch (kind) {
  case Reduction::Mean:
    return sum / double(count);
  case Reduction::L2:
    return std::sqrt(sum);
  case Reduction::LogSum:
    return std::log(sum);
  case Reduction::LogSumExp:
    return sum + std::log(scaled);
  default:
    return sum;
  }
}

int64_t startInteger(Reduction kind, ElementType type) {
  if (kind == Reduction::Max)
    return type == ElementType::U64 ? 0 : INT64_MIN;
  return kind == Reduction::Min ? (type == ElementType::U64 ? -1 : INT64_MAX) : kind == Reduction::Product;
}

int64_t combineInteger(Reduction kind, ElementType type, int64_t sum, int64_t x) {
  uint64_t a = uint64_t(sum), b = uint64_t(x);
  switch (kind) {
  case Reduction::Max:
    return type == ElementType::U64 ? int64_t(std::max(a, b)) : std::max(sum, x);
  case Reduction::Min:
    return type == ElementType::U64 ? int64_t(std::min(a, b)) : std::min(sum, x);
  case Reduction::Product:
    return int64_t(a * b);
  case Reduction::L1:
    return int64_t(x < 0 && type != ElementType::U64 ? a - b : a + b);
  case Reduction::SumSquare:
    return int64_t(a + b * b);
  default:
    return int64_t(a + b);
  }
}

/// Kinds that are sums, largest or least elements, or products stay exact for integers.
bool isExact(Reduction kind, ElementType type) {
  return !isFloat(type) && kind != Reduction::L2 && kind != Reduction::LogSum && kind != Reduction::LogSumExp;
}

template <Reduction kind> void reduce(KernelContext &c) {
  ArrayRef<int64_t> from = c.in(0).shape;
  ElementType type = c.in(0).type;
  bool keep = c.node.integer("keepdims", 1) != 0;
  auto axes = c.integers(1, "axes");
  llvm::BitVector reduced(from.size(), axes.empty() && !c.node.integer("noop_with_empty_axes", 0));
  for (int64_t axis : axes)
    if (int64_t normal = c.normalAxis(axis, from.size()); !c.failed())
      reduced.set(normal);
  if (c.failed())
    return;
  Shape shape, strides(from.size(), 0);
  int64_t stride = 1, count = 1;
  for (int64_t d = int64_t(from.size()) - 1; d >= 0; --d) {
    if (reduced[d]) {
      count *= from[d];
      continue;
    }
    strides[d] = stride;
    stride *= from[d];
  }
  for (size_t d = 0; d < from.size(); ++d)
    if (!reduced[d] || keep)
      shape.push_back(reduced[d] ? 1 : from[d]);
  HostTensor *y = c.result(0, type, shape);
  if (!y)
    return;
  const HostTensor &x = c.data(0);
  if (c.failed())
    return;
  int64_t n = y->count();
  bool exact = isExact(kind, type);
  std::vector<double> sums(exact ? 0 : n, start(kind)), scaled(exact ? 0 : n, 0);
  std::vector<int64_t> integers(exact ? n : 0, startInteger(kind, type));
  Odometer odometer(from, {strides});
  for (int64_t i = 0, all = x.count(); i < all; ++i, odometer.advance()) {
    int64_t to = odometer.offset(0);
    if (exact)
      integers[to] = combineInteger(kind, type, integers[to], x.integer(i));
    else
      combine(kind, x.real(i), sums[to], scaled[to]);
  }
  HostTensor value(ElementType::F64, {1});
  for (int64_t i = 0; i < n; ++i) {
    if (exact) {
      y->setInteger(i, kind == Reduction::Mean && count ? integers[i] / count : integers[i]);
      continue;
    }
    value.reals[0] = finish(kind, sums[i], scaled[i], count);
    y->setFrom(i, value, 0);
  }
}

template <bool largest> void argument(KernelContext &c) {
  ArrayRef<int64_t> from = c.in(0).shape;
  int64_t axis = c.normalAxis(c.node.integer("axis", 0), from.size());
  if (c.failed())
    return;
  Shape shape(from);
  if (c.node.integer("keepdims", 1))
    shape[axis] = 1;
  else
    shape.erase(shape.begin() + axis);
  HostTensor *y = c.result(0, ElementType::I64, shape);
  if (!y)
    return;
  const HostTensor &x = c.data(0);
  bool last = c.node.integer("select_last_index", 0) != 0;
  int64_t size = from[axis], inner = countOf(from.drop_front(axis + 1)), outer = countOf(from.take_front(axis));
  for (int64_t o = 0; !c.failed() && o < outer; ++o)
    for (int64_t i = 0; i < inner; ++i) {
      int64_t best = 0;
      for (int64_t k = 1; k < size; ++k) {
        double a = x.real((o * size + k) * inner + i), b = x.real((o * size + best) * inner + i);
        const bool beats = std::isnan(a) ? !std::isnan(b) || last : largest ? a > b : a < b; // a NaN is found first
        if (beats || (last && a == b))
          best = k;
      }
      y->integers[o * inner + i] = best;
    }
}

} // namespace

void addReductionKernels(llvm::StringMap<Kernel> &t) {
  t["ReduceSum"] = {reduce<Reduction::Sum>, 2, false, 0};
  t["ReduceMean"] = {reduce<Reduction::Mean>, 2, false, 0};
  t["ReduceMax"] = {reduce<Reduction::Max>, 2, false, 0};
  t["ReduceMin"] = {reduce<Reduction::Min>, 2, false, 0};
  t["ReduceProd"] = {reduce<Reduction::Product>, 2, false, 0};
  t["ReduceL1"] = {reduce<Reduction::L1>, 2, false, 0};
  t["ReduceL2"] = {reduce<Reduction::L2>, 2, false, 0};
  t["ReduceLogSum"] = {reduce<Reduction::LogSum>, 2, false, 0};
  t["ReduceLogSumExp"] = {reduce<Reduction::LogSumExp>, 2, false, 0};
  t["ReduceSumSquare"] = {reduce<Reduction::SumSquare>, 2, false, 0};
  t["ArgMax"] = {argument<true>, 0, false, 0};
  t["ArgMin"] = {argument<false>, 0, false, 0};
}

} // namespace ztc::importer
