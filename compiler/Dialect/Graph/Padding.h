// The row of an embedding whose lookups give its table no gradient.
#pragma once
#include "compiler/Dialect/Graph/Graph.h"
#include <optional>

namespace ztc::graph {

/// Attribute of graph.embedding, i64.
inline constexpr llvm::StringLiteral kPadding = "padding";

inline std::optional<int64_t> paddingOf(EmbeddingOp op) {
  auto attribute = op->getAttrOfType<mlir::IntegerAttr>(kPadding);
  return attribute ? std::optional<int64_t>(attribute.getInt()) : std::nullopt;
}

} // namespace ztc::graph
