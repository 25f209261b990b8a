// Names of the attributes of generation with a key/value cache (see RationaleGraph.md), and of how ops are rounded.
#pragma once
#include "llvm/ADT/StringRef.h"

namespace ztc::graph {

/// Module: why there is no @decode.
inline constexpr llvm::StringLiteral kNoCache = "graph.no_cache";
/// Op of an attention that is written out, or of a choice of experts: a product adds up in f32 in every precision and
/// is not rounded, and neither is what is computed of it before the next product. Parameter, cache: it is f32 in
/// every precision.
inline constexpr llvm::StringLiteral kWide = "graph.wide";
/// Product that is wide: its factors are f32 in every precision too, as those of linear attention are.
inline constexpr llvm::StringLiteral kWideFactors = "graph.wide_factors";
/// Sigmoid in f32 of which all that is made is rounded to 16 bits: a kernel may compute it as exactly as that needs.
inline constexpr llvm::StringLiteral kRoundedNarrow = "graph.rounded_narrow";

} // namespace ztc::graph
