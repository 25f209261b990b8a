// Reductions and matrix products.
#include "frontends/onnx/Evaluator.h"
#include "llvm/Support/MathExtras.h"
#include <cmath>
#include <limits>

using llvm::ArrayRef;

namespace ztc::importer {
namespace {

enum class Reduction { Sum, Mean, Max, Min, Product };

template <Reduction kind> void reduce(KernelContext &c) {
  ArrayRef<int64_t> from = c.in(0).shape;
  bool keep = c.node.integer("keepdims", 1) != 0;
  auto axes = c.integers(1, "axes");
  if (c.failed())
    return;
  llvm::BitVector reduced(from.size(), axes.empty() && !c.node.integer("noop_with_empty_axes", 0));
  for (int64_t axis : axes)
    if (int64_t normal = c.normalAxis(axis, from.size()); !c.failed())
      reduced.set(normal);
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
  HostTensor *y = c.result(0, c.in(0).type, shape);
  if (!y)
    return;
  const HostTensor &x = c.data(0);
  if (c.failed())
    return;
  bool isReal = y->storage() == HostTensor::Storage::Reals;
  double startReal = kind == Reduction::Product ? 1
                     : kind == Reduction::Max   ? -std::numeric_limits<double>::infinity()
                     : kind == Reduction::Min   ? std::numeric_limits<double>::infinity()
                                                : 0;
  int64_t startInteger = kind == Reduction::Product ? 1
                         : kind == Reduction::Max   ? INT64_MIN
                         : kind == Reduction::Min   ? INT64_MAX
                                                    : 0;
  for (int64_t i = 0, n = y->count(); i < n; ++i)
    isReal                                      ? void(y->reals[i] = startReal)
    : y->storage() == HostTensor::Storage::Bits ? void(y->bits[i] = startInteger > 0)
                                                : void(y->integers[i] = startInteger);
  Odometer odometer(from, {strides});
  for (int64_t i = 0, n = x.count(); i < n; ++i, odometer.advance()) {
    int64_t to = odometer.offset(0);
    auto combine = [](auto a, auto b) {
      return kind == Reduction::Max       ? std::max(a, b)
             : kind == Reduction::Min     ? std::min(a, b)
             : kind == Reduction::Product ? a * b
                                          : a + b;
    };
    auto wrapped = [&](int64_t a, int64_t b) { // sums and products wrap around
      return kind == Reduction::Max || kind == Reduction::Min ? combine(a, b)
                                                              : int64_t(combine(uint64_t(a), uint64_t(b)));
    };
    if (isReal)
      y->reals[to] = combine(y->reals[to], x.reals[i]);
    else if (y->storage() == HostTensor::Storage::Bits)
      y->bits[to] = kind == Reduction::Min ? (y->bits[to] && x.bits[i]) : (y->bits[to] || x.bits[i]);
    else
      y->integers[to] = wrapTo(wrapped(y->integers[to], x.integers[i]), y->type);
  }
  for (int64_t i = 0, n = y->count(); i < n; ++i) {
    if (isReal)
      y->reals[i] = roundTo(kind == Reduction::Mean ? y->reals[i] / double(count) : y->reals[i], y->type);
    else if (kind == Reduction::Mean && count)
      y->integers[i] /= count;
  }
}

void matmul(KernelContext &c) {
  Shape a = c.in(0).shape, b = c.in(1).shape;
  bool vectorA = a.size() == 1, vectorB = b.size() == 1;
  if (a.empty() || b.empty()) {
    c.fail("an operand is a scalar");
    return;
  }
  if (vectorA)
    a.insert(a.begin(), 1);
  if (vectorB)
    b.push_back(1);
  int64_t m = a[a.size() - 2], k = a.back(), n = b.back();
  Shape batch;
  if (b[b.size() - 2] != k || !broadcastShape(ArrayRef(a).drop_back(2), ArrayRef(b).drop_back(2), batch)) {
    c.fail("operand shapes do not fit a product: contraction sizes " + llvm::Twine(k) + " and " +
           llvm::Twine(b[b.size() - 2]));
    return;
  }
  Shape shape = batch;
  if (!vectorA)
    shape.push_back(m);
  if (!vectorB)
    shape.push_back(n);
  HostTensor *y = c.result(0, c.in(0).type, shape);
  if (!y || !c.spend(llvm::SaturatingMultiply(uint64_t(countOf(shape)), uint64_t(k))))
    return;
  const HostTensor &x = c.data(0), &w = c.data(1);
  if (c.failed())
    return;
  Odometer odometer(
      batch, {broadcastStrides(ArrayRef(a).drop_back(2), batch), broadcastStrides(ArrayRef(b).drop_back(2), batch)});
  int64_t to = 0;
  for (int64_t p = 0, products = countOf(batch); p < products; ++p, odometer.advance()) {
    int64_t baseA = odometer.offset(0) * m * k, baseB = odometer.offset(1) * k * n;
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j, ++to) {
        double sum = 0;
        int64_t integer = 0;
        for (int64_t l = 0; l < k; ++l) {
          if (y->storage() == HostTensor::Storage::Reals)
            sum += x.reals[baseA + i * k + l] * w.reals[baseB + l * n + j];
          else
            integer = int64_t(uint64_t(integer) +
                              uint64_t(x.integers[baseA + i * k + l]) * uint64_t(w.integers[baseB + l * n + j]));
        }
        y->storage() == HostTensor::Storage::Reals ? void(y->reals[to] = roundTo(sum, y->type))
                                                   : void(y->integers[to] = wrapTo(integer, y->type));
      }
  }
}

void gemm(KernelContext &c) {
  ArrayRef<int64_t> a = c.in(0).shape, b = c.in(1).shape;
  if (a.size() != 2 || b.size() != 2) {
    c.fail("operands of Gemm are matrices");
    return;
  }
  bool transA = c.node.integer("transA", 0), transB = c.node.integer("transB", 0);
  if (a[transA ? 0 : 1] != b[transB ? 1 : 0]) {
    c.fail("contraction sizes differ: " + llvm::Twine(a[transA ? 0 : 1]) + " and " + llvm::Twine(b[transB ? 1 : 0]));
    return;
  }
  c.shape(0, c.in(0).type, {a[transA ? 1 : 0], b[transB ? 0 : 1]});
}

} // namespace

void addReductionKernels(llvm::StringMap<Kernel> &t) {
  t["ReduceSum"] = {reduce<Reduction::Sum>, 2, false, 0};
  t["ReduceMean"] = {reduce<Reduction::Mean>, 2, false, 0};
  t["ReduceMax"] = {reduce<Reduction::Max>, 2, false, 0};
  t["ReduceMin"] = {reduce<Reduction::Min>, 2, false, 0};
  t["ReduceProd"] = {reduce<Reduction::Product>, 2, false, 0};
  t["MatMul"] = {matmul, 0, false, 0};
  t["Gemm"] = {gemm, 0, false, 0};
}

} // namespace ztc::importer
