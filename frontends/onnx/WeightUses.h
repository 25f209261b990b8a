// What nodes do with weights: tables that are looked up, matrices of products.
#pragma once
#include "frontends/onnx/Model.h"

namespace ztc::importer {

/// The initializer that a value is, up to casts and transposes, and its shape there; null where it is none.
const Initializer *weightOf(const Model &model, llvm::StringRef value, Shape &shape);
/// Rows of the float table that a Gather looks up by row; 0 where it is not such a lookup.
int64_t tableRows(const Model &model, const Node &node);
/// Columns of the product that an output comes from through pointwise ops and views; 0 where none is found.
int64_t columnsOfLastProduct(const Model &model, llvm::StringRef output);

} // namespace ztc::importer
