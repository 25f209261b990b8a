// Which parameters are of which transformer block.
#pragma once
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <vector>

namespace ztc::importer {

struct NamedShape {
  llvm::StringRef name; ///< in the checkpoint
  llvm::ArrayRef<int64_t> shape;
};

/// The block of each parameter, -1 where it is of none: the N of `layers.N`, `h.N` and the like (layerOf). Where no
/// name has one, the place in the list of modules, whatever it is called, that holds most of the elements: members of
/// `NAME.0`, `NAME.1`, ... with two matrices or more each, other than experts; and in all lists of the same length
/// beside it (attentions.N, norms.N).
std::vector<int64_t> layersOf(llvm::ArrayRef<NamedShape> parameters);

} // namespace ztc::importer
