// Lookups by index.
#include "frontends/onnx/Evaluator.h"

using llvm::ArrayRef;

namespace ztc::importer {
namespace {

/// An index, counted from the end where negative; fails outside of [-size, size).
bool normalIndex(KernelContext &c, int64_t &index, int64_t size) {
  if (index < 0)
    index += size;
  return index >= 0 && index < size
             ? true
             : c.fail("index " + llvm::Twine(index) + " is outside of a dimension of size " + llvm::Twine(size));
}

void gather(KernelContext &c) {
  ArrayRef<int64_t> data = c.in(0).shape, indices = c.in(1).shape;
  int64_t axis = c.normalAxis(c.node.integer("axis", 0), data.size());
  if (c.failed())
    return;
  Shape shape(data.take_front(axis));
  shape.append(indices.begin(), indices.end());
  shape.append(data.begin() + axis + 1, data.end());
  HostTensor *y = c.result(0, c.in(0).type, shape);
  if (!y)
    return;
  const HostTensor &x = c.data(0), &which = c.data(1);
  int64_t outer = countOf(data.take_front(axis)), inner = countOf(data.drop_front(axis + 1)), to = 0;
  for (int64_t o = 0; !c.failed() && o < outer; ++o)
    for (int64_t k = 0, n = which.count(); k < n; ++k) {
      int64_t index = which.integer(k);
      if (!normalIndex(c, index, data[axis]))
        return;
      for (int64_t i = 0; i < inner; ++i)
        copyElement(x, (o * data[axis] + index) * inner + i, *y, to++);
    }
}

void gatherElements(KernelContext &c) {
  ArrayRef<int64_t> data = c.in(0).shape;
  int64_t axis = c.normalAxis(c.node.integer("axis", 0), data.size());
  if (c.failed())
    return;
  bool fits = data.size() == c.in(1).shape.size();
  for (size_t d = 0; fits && d < data.size(); ++d)
    fits = int64_t(d) == axis || c.in(1).shape[d] <= data[d];
  if (!fits) {
    c.fail("indices do not fit the operand");
    return;
  }
  HostTensor *y = c.result(0, c.in(0).type, c.in(1).shape);
  if (!y)
    return;
  const HostTensor &x = c.data(0), &which = c.data(1);
  Odometer odometer(which.shape, {});
  Shape unit(data.size(), 1);
  for (int64_t i = 0, n = c.failed() ? 0 : y->count(); i < n; ++i, odometer.advance()) {
    int64_t index = which.integer(i), from = 0;
    if (!normalIndex(c, index, data[axis]))
      return;
    for (size_t d = 0; d < data.size(); ++d)
      from = from * data[d] + (int64_t(d) == axis ? index : odometer.position()[d]);
    copyElement(x, from, *y, i);
  }
}

void gatherND(KernelContext &c) {
  ArrayRef<int64_t> data = c.in(0).shape, indices = c.in(1).shape;
  int64_t batchRank = c.node.integer("batch_dims", 0);
  if (indices.empty() || batchRank < 0 || batchRank >= int64_t(indices.size()) || indices.back() < 0 ||
      batchRank > int64_t(data.size()) || indices.back() > int64_t(data.size()) - batchRank ||
      data.take_front(batchRank) != indices.take_front(batchRank)) {
    c.fail("indices do not fit the operand");
    return;
  }
  int64_t width = indices.back();
  Shape shape(indices.drop_back());
  shape.append(data.begin() + batchRank + width, data.end());
  HostTensor *y = c.result(0, c.in(0).type, shape);
  if (!y)
    return;
  const HostTensor &x = c.data(0), &which = c.data(1);
  if (c.failed())
    return;
  int64_t inner = countOf(data.drop_front(batchRank + width)), batches = countOf(data.take_front(batchRank));
  int64_t tuples = countOf(indices.drop_back()) / std::max<int64_t>(batches, 1), to = 0;
  for (int64_t b = 0; b < batches; ++b)
    for (int64_t t = 0; t < tuples; ++t) {
      int64_t from = b;
      for (int64_t k = 0; k < width; ++k) {
        int64_t index = which.integer((b * tuples + t) * width + k), size = data[batchRank + k];
        if (!normalIndex(c, index, size))
          return;
        from = from * size + index;
      }
      for (int64_t i = 0; i < inner; ++i)
        copyElement(x, from * inner + i, *y, to++);
    }
}

} // namespace

void addIndexKernels(llvm::StringMap<Kernel> &t) {
  t["Gather"] = {gather, 0, false, 0};
  t["GatherElements"] = {gatherElements, 0, false, 0};
  t["GatherND"] = {gatherND, 0, false, 0};
}

} // namespace ztc::importer
