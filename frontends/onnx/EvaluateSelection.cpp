// What picks by value or writes by index: largest elements, one-hot rows, scatters, triangles, running sums.
#include "frontends/onnx/Evaluator.h"
#include <cmath>
#include <numeric>

using llvm::ArrayRef;

namespace ztc::importer {
namespace {

void topK(KernelContext &c) {
  Shape shape = c.in(0).shape;
  int64_t axis = c.normalAxis(c.node.integer("axis", -1), shape.size());
  llvm::SmallVector<int64_t> count;
  if (c.has(1))
    count = c.integers(1, "");
  else
    count.push_back(c.node.integer("k", -1));
  if (c.failed())
    return;
  if (count.empty() || count[0] < 0 || count[0] > shape[axis]) {
    c.fail("asks for more elements than the dimension has");
    return;
  }
  int64_t size = shape[axis], k = count[0];
  int64_t inner = countOf(ArrayRef(shape).drop_front(axis + 1)), outer = countOf(ArrayRef(shape).take_front(axis));
  shape[axis] = k;
  HostTensor *values = c.result(0, c.in(0).type, shape), *indices = c.result(1, ElementType::I64, shape);
  if (!values && !indices)
    return;
  const HostTensor &x = c.data(0);
  bool largest = c.node.integer("largest", 1) != 0;
  std::vector<int64_t> order(size);
  for (int64_t o = 0; !c.failed() && o < outer; ++o)
    for (int64_t i = 0; i < inner; ++i) {
      std::iota(order.begin(), order.end(), 0);
      std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        double p = x.real((o * size + a) * inner + i), q = x.real((o * size + b) * inner + i);
        if (std::isnan(p) || std::isnan(q)) // a NaN is found first
          return std::isnan(p) != std::isnan(q) ? std::isnan(p) : a < b;
        return p == q ? a < b : largest ? p > q : p < q;
      });
      for (int64_t r = 0; r < k; ++r) {
        int64_t to = (o * k + r) * inner + i;
        if (values)
          values->setFrom(to, x, (o * size + order[r]) * inner + i);
        if (indices)
          indices->integers[to] = order[r];
      }
    }
}

void oneHot(KernelContext &c) {
  auto depth = c.integers(1, "");
  Shape shape = c.in(0).shape;
  int64_t axis = c.normalAxis(c.node.integer("axis", -1), shape.size() + 1);
  if (c.failed())
    return;
  if (depth.size() != 1 || depth[0] < 0) {
    c.fail("has no depth");
    return;
  }
  int64_t inner = countOf(ArrayRef(shape).drop_front(axis)), outer = countOf(ArrayRef(shape).take_front(axis));
  shape.insert(shape.begin() + axis, depth[0]);
  HostTensor *y = c.result(0, c.in(2).type, shape);
  if (!y)
    return;
  const HostTensor &indices = c.data(0), &values = c.data(2);
  if (c.failed() || values.count() != 2) {
    c.fail("needs two values");
    return;
  }
  for (int64_t i = 0, n = y->count(); i < n; ++i)
    y->setFrom(i, values, 0);
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < inner; ++i) {
      int64_t index = indices.integer(o * inner + i);
      index += index < 0 ? depth[0] : 0;
      if (index >= 0 && index < depth[0])
        y->setFrom((o * depth[0] + index) * inner + i, values, 1);
    }
}

/// One element into another by the node's reduction.
void combine(llvm::StringRef reduction, const HostTensor &update, int64_t from, HostTensor &y, int64_t to) {
  if (reduction == "none") {
    y.setFrom(to, update, from);
  } else if (y.storage() == HostTensor::Storage::Reals) {
    double a = y.real(to), b = update.real(from);
    y.setReal(to, reduction == "add"   ? a + b
                  : reduction == "mul" ? a * b
                  : reduction == "max" ? std::max(a, b)
                                       : std::min(a, b));
  } else {
    int64_t a = y.integer(to), b = update.integer(from);
    y.setInteger(to, reduction == "add"   ? int64_t(uint64_t(a) + uint64_t(b))
                     : reduction == "mul" ? int64_t(uint64_t(a) * uint64_t(b))
                     : reduction == "max" ? std::max(a, b)
                                          : std::min(a, b));
  }
}

bool wrapIndex(KernelContext &c, int64_t &index, int64_t size) {
  index += index < 0 ? size : 0;
  return index >= 0 && index < size
             ? true
             : c.fail("index " + llvm::Twine(index) + " is outside of a dimension of size " + llvm::Twine(size));
}

void scatterElements(KernelContext &c) {
  HostTensor *y = c.result(0, c.in(0).type, c.in(0).shape);
  if (!y)
    return;
  const HostTensor &x = c.data(0), &which = c.data(1), &updates = c.data(2);
  int64_t axis = c.normalAxis(c.node.integer("axis", 0), x.shape.size());
  if (c.failed() || which.shape.size() != x.shape.size() || updates.shape != which.shape) {
    c.fail("indices and updates do not fit the operand");
    return;
  }
  *y = x;
  std::string reduction = c.node.text("reduction", "none");
  Odometer odometer(which.shape, {});
  for (int64_t i = 0, n = which.count(); i < n; ++i, odometer.advance()) {
    int64_t to = 0;
    for (size_t d = 0; d < x.shape.size(); ++d) {
      int64_t at = int64_t(d) == axis ? which.integer(i) : odometer.position()[d];
      if (!wrapIndex(c, at, x.shape[d]))
        return;
      to = to * x.shape[d] + at;
    }
    combine(reduction, updates, i, *y, to);
  }
}

void scatterND(KernelContext &c) {
  HostTensor *y = c.result(0, c.in(0).type, c.in(0).shape);
  if (!y)
    return;
  const HostTensor &x = c.data(0), &which = c.data(1), &updates = c.data(2);
  int64_t width = which.shape.empty() ? 1 : which.shape.back();
  if (c.failed() || width > int64_t(x.shape.size())) {
    c.fail("indices do not fit the operand");
    return;
  }
  int64_t tuples = width ? which.count() / width : 0, inner = countOf(ArrayRef(x.shape).drop_front(width));
  if (updates.count() != tuples * inner) {
    c.fail("updates do not fit the indices");
    return;
  }
  *y = x;
  std::string reduction = c.node.text("reduction", "none");
  for (int64_t t = 0; t < tuples; ++t) {
    int64_t to = 0;
    for (int64_t k = 0; k < width; ++k) {
      int64_t index = which.integer(t * width + k);
      if (!wrapIndex(c, index, x.shape[k]))
        return;
      to = to * x.shape[k] + index;
    }
    for (int64_t i = 0; i < inner; ++i)
      combine(reduction, updates, t * inner + i, *y, to * inner + i);
  }
}

template <bool product> void running(KernelContext &c) {
  ArrayRef<int64_t> shape = c.in(0).shape;
  HostTensor *y = c.result(0, c.in(0).type, c.in(0).shape);
  if (!y)
    return;
  const HostTensor &x = c.data(0), *axisTensor = c.scalar(1);
  if (c.failed())
    return;
  int64_t axis = c.normalAxis(axisTensor->integer(0), shape.size());
  if (c.failed())
    return;
  bool exclusive = c.node.integer("exclusive", 0) != 0, reverse = c.node.integer("reverse", 0) != 0;
  bool isReal = y->storage() == HostTensor::Storage::Reals;
  int64_t size = shape[axis], inner = countOf(shape.drop_front(axis + 1)), outer = countOf(shape.take_front(axis));
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < inner; ++i) {
      double real = product;
      uint64_t integer = product;
      for (int64_t k = 0; k < size; ++k) {
        int64_t at = (o * size + (reverse ? size - 1 - k : k)) * inner + i;
        auto store = [&] { isReal ? y->setReal(at, real) : y->setInteger(at, int64_t(integer)); };
        if (exclusive)
          store();
        if (isReal)
          real = roundTo(product ? real * x.real(at) : real + x.real(at), y->type);
        else
          integer = product ? integer * uint64_t(x.integer(at)) : integer + uint64_t(x.integer(at));
        if (!exclusive)
          store();
      }
    }
}

void triangle(KernelContext &c) {
  ArrayRef<int64_t> shape = c.in(0).shape;
  if (shape.size() < 2) {
    c.fail("takes a triangle of a tensor of rank " + llvm::Twine(shape.size()));
    return;
  }
  HostTensor *y = c.result(0, c.in(0).type, c.in(0).shape);
  if (!y)
    return;
  const HostTensor &x = c.data(0), *diagonal = c.has(1) ? &c.data(1) : nullptr;
  if (c.failed())
    return;
  int64_t k = diagonal && diagonal->count() ? diagonal->integer(0) : 0;
  k = std::clamp<int64_t>(k, -(int64_t(1) << 40), int64_t(1) << 40);
  bool upper = c.node.integer("upper", 1) != 0;
  int64_t rows = shape[shape.size() - 2], columns = shape.back();
  for (int64_t i = 0, n = y->count(); i < n; ++i) {
    int64_t row = i / columns % rows, column = i % columns;
    if (upper ? column - row >= k : column - row <= k)
      y->setFrom(i, x, i);
  }
}

void compress(KernelContext &c) {
  Shape shape = c.in(0).shape;
  const HostTensor &condition = c.data(1);
  if (c.failed())
    return;
  bool isFlat = !c.node.has("axis");
  if (isFlat)
    shape = {countOf(shape)};
  int64_t axis = c.normalAxis(isFlat ? 0 : c.node.integer("axis", 0), shape.size());
  if (c.failed())
    return;
  llvm::SmallVector<int64_t> kept;
  for (int64_t i = 0, n = std::min(condition.count(), shape[axis]); i < n; ++i)
    if (condition.integer(i))
      kept.push_back(i);
  int64_t size = shape[axis], inner = countOf(ArrayRef(shape).drop_front(axis + 1)),
          outer = countOf(ArrayRef(shape).take_front(axis)), to = 0;
  shape[axis] = int64_t(kept.size());
  HostTensor *y = c.result(0, c.in(0).type, shape);
  if (!y)
    return;
  const HostTensor &x = c.data(0);
  for (int64_t o = 0; !c.failed() && o < outer; ++o)
    for (int64_t k : kept)
      for (int64_t i = 0; i < inner; ++i)
        y->setFrom(to++, x, (o * size + k) * inner + i);
}

void reverseSequence(KernelContext &c) {
  ArrayRef<int64_t> shape = c.in(0).shape;
  int64_t batch = c.normalAxis(c.node.integer("batch_axis", 1), shape.size()),
          time = c.normalAxis(c.node.integer("time_axis", 0), shape.size());
  HostTensor *y = c.result(0, c.in(0).type, c.in(0).shape);
  if (!y)
    return;
  const HostTensor &x = c.data(0), &lengths = c.data(1);
  if (c.failed() || lengths.count() != shape[batch]) {
    c.fail("has lengths of another number than the batch");
    return;
  }
  int64_t stride = countOf(shape.drop_front(time + 1));
  Odometer odometer(shape, {});
  for (int64_t i = 0, n = y->count(); i < n; ++i, odometer.advance()) {
    int64_t t = odometer.position()[time], length = lengths.integer(odometer.position()[batch]);
    y->setFrom(i, x, t < length && length <= shape[time] ? i + (length - 1 - 2 * t) * stride : i);
  }
}

/// Coordinates of elements that are not zero, a column each.
void nonZero(KernelContext &c) {
  const HostTensor &x = c.data(0);
  if (c.failed())
    return;
  llvm::SmallVector<Shape> found;
  Odometer odometer(x.shape, {});
  for (int64_t i = 0, n = x.count(); i < n; ++i, odometer.advance())
    if (x.real(i) != 0)
      found.push_back(Shape(odometer.position()));
  int64_t rank = int64_t(x.shape.size()), count = int64_t(found.size());
  HostTensor *y = c.result(0, ElementType::I64, {rank, count});
  for (int64_t d = 0; y && d < rank; ++d)
    for (int64_t k = 0; k < count; ++k)
      y->integers[d * count + k] = found[k][d];
}

} // namespace

void addSelectionKernels(llvm::StringMap<Kernel> &t) {
  t["TopK"] = {topK, input(1), false, 0};
  t["OneHot"] = {oneHot, input(1), false, 0};
  t["ScatterElements"] = {scatterElements, 0, false, 0};
  t["Scatter"] = t["ScatterElements"];
  t["ScatterND"] = {scatterND, 0, false, 0};
  t["CumSum"] = {running<false>, 0, false, 0};
  t["CumProd"] = {running<true>, 0, false, 0};
  t["Trilu"] = {triangle, 0, false, 0};
  t["Compress"] = {compress, input(1), false, 0};
  t["ReverseSequence"] = {reverseSequence, 0, false, 0};
  t["NonZero"] = {nonZero, input(0), false, 0};
}

} // namespace ztc::importer
