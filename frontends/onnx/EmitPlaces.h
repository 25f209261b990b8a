// Indices of elements or tuples as places in a table of rows: what gathers and scatters share.
#pragma once
#include "frontends/onnx/Emitter.h"

namespace ztc::importer {

/// `count` rows of a tensor seen as (rows, width): constants, or i32 data of shape (count).
struct Places {
  int64_t rows = 0, width = 1, count = 0;
  std::optional<llvm::SmallVector<int64_t>> known;
  mlir::Value value;
};

/// Of input 1 into input 0 as GatherElements and ScatterElements mean it; none after a diagnostic.
std::optional<Places> elementPlaces(Emitter &e, int64_t axis);
/// As GatherND and ScatterND mean it: tuples in the last dimension, after `batchRank` common dimensions.
std::optional<Places> tuplePlaces(Emitter &e, int64_t batchRank);

} // namespace ztc::importer
