// What a constant says once: its elements without those that only repeat.
#pragma once
#include "frontends/onnx/Model.h"

namespace ztc::importer {

/// A constant and its elements without the dimensions along which they only repeat: these have size 1 in `shape`.
struct ConstantCore {
  Shape shape;
  std::vector<double> elements;

  ConstantCore(llvm::ArrayRef<int64_t> full, std::vector<double> values) : shape(full), elements(std::move(values)) {
    for (unsigned d = 0; d < shape.size(); ++d)
      dropRepeats(d);
  }

private:
  void dropRepeats(unsigned dimension) {
    int64_t size = shape[dimension], inner = 1;
    for (int64_t after : llvm::ArrayRef<int64_t>(shape).drop_front(dimension + 1))
      inner *= after;
    if (size <= 1 || elements.empty())
      return;
    for (int64_t i = 0; i < int64_t(elements.size()); ++i)
      if (elements[i] != elements[i - (i / inner) % size * inner])
        return;
    std::vector<double> kept;
    for (int64_t i = 0; i < int64_t(elements.size()); ++i)
      if ((i / inner) % size == 0)
        kept.push_back(elements[i]);
    elements = std::move(kept);
    shape[dimension] = 1;
  }
};

} // namespace ztc::importer
