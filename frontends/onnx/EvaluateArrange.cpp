// Padding, blocks, cuts: elements in other places, and constants that fill what is new.
#include "frontends/onnx/Evaluator.h"

using llvm::ArrayRef;

namespace ztc::importer {
namespace {

/// y from x by `from(position of y, position of x)`; false: the filler.
template <typename From> void arrange(KernelContext &c, const Shape &shape, const HostTensor *filler, From from) {
  HostTensor *y = c.result(0, c.in(0).type, shape);
  if (!y)
    return;
  const HostTensor &x = c.data(0);
  if (c.failed())
    return;
  Odometer odometer(shape, {});
  Shape place(x.shape.size(), 0);
  for (int64_t i = 0, n = y->count(); i < n; ++i, odometer.advance()) {
    bool isInside = from(odometer.position(), place);
    int64_t at = 0;
    for (size_t d = 0; isInside && d < place.size(); ++d) {
      isInside &= place[d] >= 0 && place[d] < x.shape[d];
      at = at * x.shape[d] + place[d];
    }
    if (isInside)
      y->setFrom(i, x, at);
    else if (filler && filler->count())
      y->setFrom(i, *filler, 0);
  }
}

void pad(KernelContext &c) {
  Shape shape = c.in(0).shape, low(shape.size(), 0), high = low;
  auto pads = c.integers(1, "pads");
  llvm::SmallVector<int64_t> axes;
  if (c.has(3))
    axes = c.integers(3, "");
  else
    for (size_t d = 0; d < shape.size(); ++d)
      axes.push_back(int64_t(d));
  if (pads.size() != 2 * axes.size())
    c.fail("has pads of another number than its axes");
  for (size_t i = 0; i < axes.size() && !c.failed(); ++i) {
    int64_t axis = c.normalAxis(axes[i], shape.size());
    if (c.failed())
      return;
    low[axis] = pads[i];
    high[axis] = pads[i + axes.size()];
  }
  if (c.failed())
    return;
  Shape from = shape;
  for (size_t d = 0; d < shape.size(); ++d)
    shape[d] += low[d] + high[d];
  std::string mode = c.node.text("mode", "constant");
  HostTensor value(ElementType::F64, {1});
  value.reals[0] = c.node.real("value", 0);
  const HostTensor *filler = c.wantData && c.has(2) && c.in(2).data ? c.in(2).data.get() : &value;
  arrange(c, shape, filler, [&](ArrayRef<int64_t> to, Shape &place) {
    for (size_t d = 0; d < place.size(); ++d) {
      int64_t at = to[d] - low[d], size = from[d];
      if (mode == "edge" && size)
        at = std::clamp<int64_t>(at, 0, size - 1);
      else if (mode == "wrap" && size)
        at = (at % size + size) % size;
      else if (mode == "reflect" && size > 1) {
        int64_t period = 2 * (size - 1);
        at = (at % period + period) % period;
        at = at < size ? at : period - at;
      } else if (mode == "reflect") {
        at = 0;
      }
      place[d] = at;
    }
    return true;
  });
}

/// (B, C, H, W) only.
bool hasBlocks(KernelContext &c, int64_t &block, bool fromSpace) {
  ArrayRef<int64_t> s = c.in(0).shape;
  block = c.node.integer("blocksize", 0);
  if (s.size() == 4 && block > 0 && block < (1 << 20) &&
      (fromSpace ? s[2] % block == 0 && s[3] % block == 0 : s[1] % (block * block) == 0))
    return true;
  return c.fail("its operand does not fall into blocks of " + llvm::Twine(block));
}

void depthToSpace(KernelContext &c) {
  int64_t b = 0;
  if (!hasBlocks(c, b, false))
    return;
  ArrayRef<int64_t> s = c.in(0).shape;
  int64_t depth = s[1] / (b * b);
  bool columnsFirst = c.node.text("mode", "DCR") == "CRD";
  arrange(c, {s[0], depth, s[2] * b, s[3] * b}, nullptr, [&](ArrayRef<int64_t> to, Shape &place) {
    int64_t block = to[2] % b * b + to[3] % b;
    place = {to[0], columnsFirst ? to[1] * b * b + block : block * depth + to[1], to[2] / b, to[3] / b};
    return true;
  });
}

void spaceToDepth(KernelContext &c) {
  int64_t b = 0;
  if (!hasBlocks(c, b, true))
    return;
  ArrayRef<int64_t> s = c.in(0).shape;
  arrange(c, {s[0], s[1] * b * b, s[2] / b, s[3] / b}, nullptr, [&](ArrayRef<int64_t> to, Shape &place) {
    int64_t block = to[1] / s[1];
    place = {to[0], to[1] % s[1], to[2] * b + block / b, to[3] * b + block % b};
    return true;
  });
}

void centerCropPad(KernelContext &c) {
  Shape shape = c.in(0).shape, low(shape.size(), 0);
  auto wanted = c.integers(1, "");
  auto axes = c.node.integers("axes");
  for (size_t i = 0; i < wanted.size() && !c.failed(); ++i) {
    int64_t axis = c.normalAxis(axes.empty() ? int64_t(i) : i < axes.size() ? axes[i] : -1000, shape.size());
    if (c.failed())
      return;
    int64_t difference = wanted[i] - shape[axis];
    low[axis] = difference >= 0 ? difference / 2 : -(-difference / 2);
    shape[axis] = wanted[i];
  }
  if (!c.failed())
    arrange(c, shape, nullptr, [&](ArrayRef<int64_t> to, Shape &place) {
      for (size_t d = 0; d < place.size(); ++d)
        place[d] = to[d] - low[d];
      return true;
    });
}

/// Inference: the identity, and a mask of everything.
void dropout(KernelContext &c) {
  c.shape(0, c.in(0).type, c.in(0).shape);
  c.shape(1, ElementType::Bool, c.in(0).shape);
  if (!c.wantData)
    return;
  bool isTraining = c.has(2) && c.in(2).data && c.in(2).data->count() && c.in(2).data->integer(0);
  double ratio = c.has(1) && c.in(1).data && c.in(1).data->count() ? c.in(1).data->real(0) : 0.5;
  if (isTraining && ratio != 0) {
    c.fail("drops elements by chance");
    return;
  }
  c.share(0, c.in(0).data);
  if (c.node.outputs.size() > 1)
    if (HostTensor *mask = c.result(1, ElementType::Bool, c.in(0).shape))
      std::fill(mask->bits.begin(), mask->bits.end(), 1);
}

void eyeLike(KernelContext &c) {
  Shape shape = c.in(0).shape;
  if (shape.size() != 2) {
    c.fail("its operand is not a matrix");
    return;
  }
  auto type = static_cast<ElementType>(c.node.integer("dtype", int64_t(c.in(0).type)));
  int64_t k = c.node.integer("k", 0);
  HostTensor *y = c.result(0, type, shape);
  for (int64_t i = 0; y && i < shape[0]; ++i)
    if (int64_t column = i + k; column >= 0 && column < shape[1])
      y->storage() == HostTensor::Storage::Reals ? y->setReal(i * shape[1] + column, 1)
                                                 : y->setInteger(i * shape[1] + column, 1);
}

} // namespace

void addArrangeKernels(llvm::StringMap<Kernel> &t) {
  t["Pad"] = {pad, input(1) | input(3), false, 0};
  t["DepthToSpace"] = {depthToSpace, 0, false, 0};
  t["SpaceToDepth"] = {spaceToDepth, 0, false, 0};
  t["CenterCropPad"] = {centerCropPad, input(1), false, 0};
  t["Dropout"] = {dropout, 0, false, 0};
  t["EyeLike"] = {eyeLike, 0, true, 0};
}

} // namespace ztc::importer
