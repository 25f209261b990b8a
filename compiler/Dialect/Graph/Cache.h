// Names of the attributes of generation with a key/value cache (see RationaleGraph.md).
#pragma once
#include "llvm/ADT/StringRef.h"

namespace ztc::graph {

/// Module: why there is no @decode.
inline constexpr llvm::StringLiteral kNoCache = "graph.no_cache";
/// Op of an attention that is written out, or of a choice of experts: a product adds up in f32 in every precision and
/// is not rounded, and neither is what is computed of it before the next product. Parameter: it is f32 in every
/// precision.
inline constexpr llvm::StringLiteral kWide = "graph.wide";

} // namespace ztc::graph
