#include "compiler/Support/Location.h"
#include "mlir/IR/Location.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

/// What lists of transformer blocks are called.
static constexpr StringRef kBlockLists[] = {"layers", "layer", "h", "blocks", "block"};

std::string ztc::scopeOf(Location location) {
  if (auto name = dyn_cast<NameLoc>(location))
    return name.getName().str();
  if (auto fused = dyn_cast<FusedLoc>(location)) {
    for (Location part : fused.getLocations())
      if (std::string scope = scopeOf(part); !scope.empty())
        return scope;
  } else if (auto call = dyn_cast<CallSiteLoc>(location)) {
    return scopeOf(call.getCallee());
  }
  return "";
}

int64_t ztc::layerOf(StringRef name) {
  // Some exporters separate the modules of a path by slashes.
  SmallVector<StringRef> parts;
  llvm::SplitString(name, parts, "./");
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    int64_t layer;
    if (llvm::is_contained(kBlockLists, parts[i]) && !parts[i + 1].getAsInteger(10, layer) && layer >= 0)
      return layer;
  }
  return -1;
}

int64_t ztc::layerOf(Location location) {
  return layerOf(scopeOf(location));
}
