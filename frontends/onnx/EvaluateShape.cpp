// Shape, reshape, transpose, broadcast, slices, joins and generated constants.
#include "frontends/onnx/Evaluator.h"
#include "llvm/Support/MathExtras.h"
#include <cmath>

using llvm::ArrayRef;

namespace ztc::importer {
namespace {

void shapeOp(KernelContext &c) {
  ArrayRef<int64_t> shape = c.in(0).shape;
  auto clamp = [&](int64_t i) {
    return std::clamp<int64_t>(i < 0 ? i + int64_t(shape.size()) : i, 0, int64_t(shape.size()));
  };
  int64_t start = clamp(c.node.integer("start", 0)), end = clamp(c.node.integer("end", int64_t(shape.size())));
  ArrayRef<int64_t> part = shape.slice(start, std::max<int64_t>(end - start, 0));
  if (HostTensor *y = c.result(0, ElementType::I64, {int64_t(part.size())}))
    y->integers.assign(part.begin(), part.end());
}

void sizeOp(KernelContext &c) {
  if (HostTensor *y = c.result(0, ElementType::I64, {}))
    y->integers[0] = countOf(c.in(0).shape);
}

void reshape(KernelContext &c) {
  auto target = c.integers(1, "shape");
  if (c.failed())
    return;
  bool allowZero = c.node.integer("allowzero", 0) != 0;
  Shape shape;
  int64_t known = 1, wildcard = -1;
  for (size_t i = 0; i < target.size(); ++i) {
    int64_t size = target[i];
    if (size == 0 && !allowZero && i < c.in(0).shape.size())
      size = c.in(0).shape[i];
    if (size < -1 || (size == -1 && wildcard >= 0) || (size >= 0 && llvm::MulOverflow(known, size, known))) {
      c.fail("the new shape has an impossible size, or more than one -1");
      return;
    }
    if (size == -1)
      wildcard = int64_t(i);
    shape.push_back(size);
  }
  if (wildcard >= 0)
    shape[wildcard] = known == 0 ? 0 : countOf(c.in(0).shape) / known;
  c.reshaped(shape);
}

void flatten(KernelContext &c) {
  ArrayRef<int64_t> shape = c.in(0).shape;
  int64_t axis = c.node.integer("axis", 1);
  axis = axis < 0 ? axis + int64_t(shape.size()) : axis;
  if (axis < 0 || axis > int64_t(shape.size())) {
    c.fail("axis is outside of the operand's rank");
    return;
  }
  c.reshaped({countOf(shape.take_front(axis)), countOf(shape.drop_front(axis))});
}

void squeeze(KernelContext &c) {
  ArrayRef<int64_t> from = c.in(0).shape;
  llvm::BitVector drop(from.size());
  if (c.has(1) || c.node.has("axes")) {
    for (int64_t axis : c.integers(1, "axes"))
      if (int64_t normal = c.normalAxis(axis, from.size()); !c.failed())
        drop.set(normal);
  } else {
    for (size_t i = 0; i < from.size(); ++i)
      drop[i] = from[i] == 1;
  }
  Shape shape;
  for (size_t i = 0; i < from.size(); ++i) {
    if (!drop[i])
      shape.push_back(from[i]);
    else if (from[i] != 1)
      c.fail("drops a dimension of size " + llvm::Twine(from[i]));
  }
  if (!c.failed())
    c.reshaped(shape);
}

void unsqueeze(KernelContext &c) {
  auto axes = c.integers(1, "axes");
  ArrayRef<int64_t> from = c.in(0).shape;
  size_t rank = from.size() + axes.size();
  llvm::BitVector added(rank);
  for (int64_t axis : axes)
    if (int64_t normal = c.normalAxis(axis, rank); !c.failed())
      added.set(normal);
  if (c.failed())
    return;
  if (added.count() != axes.size()) {
    c.fail("names an axis twice");
    return;
  }
  Shape shape;
  for (size_t i = 0, next = 0; i < rank; ++i)
    shape.push_back(added[i] ? 1 : from[next++]);
  c.reshaped(shape);
}

void transpose(KernelContext &c) {
  ArrayRef<int64_t> from = c.in(0).shape;
  llvm::SmallVector<int64_t> permutation(c.node.integers("perm"));
  if (permutation.empty())
    for (size_t i = from.size(); i > 0; --i)
      permutation.push_back(int64_t(i) - 1);
  if (permutation.size() != from.size()) {
    c.fail("perm has another length than the operand's rank");
    return;
  }
  Shape shape, strides, natural = rowMajorStrides(from);
  llvm::BitVector seen(from.size());
  for (int64_t p : permutation) {
    p = c.normalAxis(p, from.size());
    if (c.failed() || seen[p]) {
      c.fail("perm names an axis twice");
      return;
    }
    seen.set(p);
    shape.push_back(from[p]);
    strides.push_back(natural[p]);
  }
  if (HostTensor *y = c.result(0, c.in(0).type, shape))
    if (const HostTensor &x = c.data(0); !c.failed())
      gatherStrided(x, 0, strides, *y);
}

void expandTo(KernelContext &c, ArrayRef<int64_t> target) {
  Shape shape;
  if (!broadcastShape(c.in(0).shape, target, shape)) {
    c.fail("the operand does not broadcast to the wanted shape");
    return;
  }
  if (HostTensor *y = c.result(0, c.in(0).type, shape))
    if (const HostTensor &x = c.data(0); !c.failed())
      gatherStrided(x, 0, broadcastStrides(x.shape, shape), *y);
}

void expand(KernelContext &c) {
  auto target = c.integers(1, "");
  if (!c.failed())
    expandTo(c, target);
}

void tile(KernelContext &c) {
  auto repeats = c.integers(1, "");
  Shape shape = c.in(0).shape;
  if (repeats.size() != shape.size()) {
    c.fail("repeats has another length than the operand's rank");
    return;
  }
  for (size_t i = 0; i < shape.size(); ++i)
    if (repeats[i] < 0 || llvm::MulOverflow(shape[i], repeats[i], shape[i])) {
      c.fail("repeats are below zero, or give an impossible size");
      return;
    }
  HostTensor *y = c.result(0, c.in(0).type, shape);
  if (!y)
    return;
  const HostTensor &x = c.data(0);
  Shape strides = rowMajorStrides(x.shape);
  Odometer odometer(shape, {});
  for (int64_t i = 0, n = c.failed() ? 0 : y->count(); i < n; ++i, odometer.advance()) {
    int64_t from = 0;
    for (size_t d = 0; d < shape.size(); ++d)
      from += odometer.position()[d] % x.shape[d] * strides[d];
    copyElement(x, from, *y, i);
  }
}

void slice(KernelContext &c) {
  auto starts = c.integers(1, "starts"), ends = c.integers(2, "ends");
  llvm::SmallVector<int64_t> axes, steps;
  if (c.has(3) || c.node.has("axes"))
    axes = c.integers(3, "axes");
  if (c.has(4))
    steps = c.integers(4, "");
  if (c.failed())
    return;
  Shape shape = c.in(0).shape, strides = rowMajorStrides(shape), from = shape;
  if (starts.size() != ends.size() || (!axes.empty() && axes.size() != starts.size()) ||
      (!steps.empty() && steps.size() != starts.size())) {
    c.fail("starts, ends, axes and steps have different lengths");
    return;
  }
  int64_t start = 0;
  llvm::BitVector seen(shape.size());
  for (size_t i = 0; i < starts.size(); ++i) {
    int64_t axis = c.normalAxis(axes.empty() ? int64_t(i) : axes[i], shape.size());
    int64_t step = steps.empty() ? 1 : steps[i], size = from[axis];
    if (c.failed() || step == 0 || seen[axis]) {
      c.fail("a step is zero, or an axis is named twice");
      return;
    }
    seen.set(axis);
    if (size == 0)
      continue; // nothing to choose from
    // A longer step than the dimension takes the first element too.
    step = std::clamp(step, -size, size);
    auto bound = [&](int64_t value, int64_t low, int64_t high) {
      return std::clamp(value < 0 ? std::max(value, -size) + size : value, low, high);
    };
    int64_t first = step > 0 ? bound(starts[i], 0, size) : bound(starts[i], 0, size - 1);
    int64_t last = step > 0 ? bound(ends[i], 0, size) : ends[i] < -size ? -1 : bound(ends[i], -1, size - 1);
    shape[axis] = std::max<int64_t>(0, step > 0 ? (last - first + step - 1) / step : (first - last - step - 1) / -step);
    start += first * strides[axis];
    strides[axis] *= step;
  }
  if (HostTensor *y = c.result(0, c.in(0).type, shape))
    if (const HostTensor &x = c.data(0); !c.failed())
      gatherStrided(x, start, strides, *y);
}

void concat(KernelContext &c) {
  Shape shape = c.in(0).shape;
  int64_t axis = c.normalAxis(c.node.integer("axis", 0), shape.size());
  if (c.failed())
    return;
  for (unsigned i = 1; i < c.node.inputs.size(); ++i) {
    Shape next = c.in(i).shape;
    if (next.size() != shape.size() || llvm::AddOverflow(shape[axis], next[axis], shape[axis])) {
      c.fail("operands have different ranks, or give an impossible size");
      return;
    }
    next[axis] = shape[axis];
    if (next != shape) {
      c.fail("operand " + llvm::Twine(i) + " differs from the first one in another dimension than axis " +
             llvm::Twine(axis));
      return;
    }
  }
  HostTensor *y = c.result(0, c.in(0).type, shape);
  if (!y)
    return;
  const TensorShape strides = y->strides();
  int64_t start = 0;
  for (unsigned i = 0; i < c.node.inputs.size(); ++i) {
    const HostTensor &x = c.data(i);
    if (c.failed())
      return;
    scatterStrided(x, *y, start, strides);
    start += x.shape[axis] * strides[axis];
  }
}

void split(KernelContext &c) {
  Shape shape = c.in(0).shape;
  int64_t axis = c.normalAxis(c.node.integer("axis", 0), shape.size());
  auto sizes = c.integers(1, "split");
  if (c.failed())
    return;
  int64_t parts = int64_t(c.node.outputs.size());
  if (sizes.empty()) {
    int64_t each = (shape[axis] + parts - 1) / parts;
    for (int64_t i = 0, left = shape[axis]; i < parts; ++i, left -= each)
      sizes.push_back(std::clamp<int64_t>(left, 0, each));
  }
  int64_t sum = 0;
  bool fits = int64_t(sizes.size()) == parts;
  for (int64_t size : sizes)
    fits = fits && size >= 0 && !llvm::AddOverflow(sum, size, sum);
  if (!fits || sum != shape[axis]) {
    c.fail("the sizes of its parts do not add up to the operand's " + llvm::Twine(shape[axis]) + " along axis " +
           llvm::Twine(axis));
    return;
  }
  Shape strides = rowMajorStrides(shape);
  int64_t start = 0;
  for (int64_t i = 0; i < parts; ++i) {
    Shape part = shape;
    part[axis] = sizes[i];
    if (HostTensor *y = c.result(unsigned(i), c.in(0).type, part))
      if (const HostTensor &x = c.data(0); !c.failed())
        gatherStrided(x, start, strides, *y);
    start += sizes[i] * strides[axis];
  }
}

void constantOfShape(KernelContext &c) {
  auto target = c.integers(0, "");
  if (c.failed())
    return;
  HostTensor value(ElementType::F32, {1});
  if (auto found = c.node.attributes.find("value"); found != c.node.attributes.end() && found->second.tensor)
    value = HostTensor::fromInitializer(*found->second.tensor);
  if (value.count() != 1) {
    c.fail("its value has " + llvm::Twine(value.count()) + " elements, the operator needs one");
    return;
  }
  HostTensor *y = c.result(0, value.type, Shape(target.begin(), target.end()));
  for (int64_t i = 0, n = y ? y->count() : 0; i < n; ++i) {
    copyElement(value, 0, *y, i);
  }
}

void range(KernelContext &c) {
  const HostTensor *start = c.scalar(0), *limit = c.scalar(1), *delta = c.scalar(2);
  if (c.failed())
    return;
  double step = delta->real(0), length = std::ceil((limit->real(0) - start->real(0)) / step);
  if (step == 0 || !(length < 0x1p62)) {
    c.fail("the step is zero, or the range endless");
    return;
  }
  int64_t n = length > 0 ? int64_t(length) : 0;
  HostTensor *y = c.result(0, start->type, {n});
  for (int64_t i = 0; y && i < n; ++i) {
    if (y->storage() == HostTensor::Storage::Reals)
      y->reals[i] = roundTo(start->reals[0] + double(i) * step, y->type);
    else
      y->integers[i] = int64_t(uint64_t(start->integers[0]) + uint64_t(i) * uint64_t(delta->integers[0]));
  }
}

} // namespace

void addShapeKernels(llvm::StringMap<Kernel> &t) {
  t["Shape"] = {shapeOp, 0, true, 0};
  t["Size"] = {sizeOp, 0, true, 0};
  t["Identity"] = {[](KernelContext &c) { c.reshaped(c.in(0).shape); }, 0, false, 0};
  t["Reshape"] = {reshape, input(1), false, 0};
  t["Flatten"] = {flatten, 0, false, 0};
  t["Squeeze"] = {squeeze, input(1), false, 0};
  t["Unsqueeze"] = {unsqueeze, input(1), false, 0};
  t["Transpose"] = {transpose, 0, false, 0};
  t["Expand"] = {expand, input(1), false, 0};
  t["Tile"] = {tile, input(1), false, 0};
  t["Slice"] = {slice, input(1) | input(2) | input(3) | input(4), false, 0};
  t["Concat"] = {concat, 0, false, 0};
  t["Split"] = {split, input(1), false, 0};
  t["ConstantOfShape"] = {constantOfShape, input(0), false, 0};
  t["Range"] = {range, input(0) | input(1) | input(2), false, 0};
}

} // namespace ztc::importer
