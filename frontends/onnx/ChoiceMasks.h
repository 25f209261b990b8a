// Masks that say which of a top-k's indices have a value.
#pragma once
#include "frontends/onnx/Model.h"
#include <optional>

namespace ztc::importer {

/// The elements of a constant of integers; nothing of other values.
std::optional<std::vector<int64_t>> integersOf(const Model &model, llvm::StringRef value);

/// The axes of a node: input `input`, or else an attribute; nothing where it gives none.
std::optional<std::vector<int64_t>> axesOf(const Model &model, const Node &node, unsigned input);

/// How many dimensions of a mask stand behind that of the K choices of a top-k, where it is true for one of them at
/// most; nothing where it has no such dimension.
std::optional<int64_t> choicesFromEnd(const Model &model, llvm::StringRef mask);

} // namespace ztc::importer
