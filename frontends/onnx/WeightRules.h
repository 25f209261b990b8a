// What may explain a difference between a graph's weights and a checkpoint's.
#pragma once

namespace ztc::importer {

/// Which transformations may explain a tensor. All of them, but for tests that show what each one is needed for.
struct WeightRules {
  bool transpose = true, cast = true, shift = true, scale = true, join = true, range = true, stack = true,
       reshape = true;
  bool function = true; ///< constants that are 1 - w, exp(w) and the like of a parameter
  bool byValue = true;  ///< tensors whose names say nothing are looked for by their values
};

} // namespace ztc::importer
