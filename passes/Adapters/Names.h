// Attributes of a module with adapters.
#pragma once
#include "llvm/ADT/StringRef.h"

namespace ztc::adapters {

/// Between `import` and `backward`: an array of what gets an adapter, see ztc-insert-adapters.
inline constexpr llvm::StringLiteral kAdapters = "graph.adapters";
/// PEFT's adapter_config.json, for the plan.
inline constexpr llvm::StringLiteral kConfig = "graph.adapter_config";

} // namespace ztc::adapters
