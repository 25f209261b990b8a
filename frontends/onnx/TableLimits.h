// How long a sequence the tables of a graph allow: rows of learned positions, sides of masks.
#pragma once
#include "frontends/onnx/Evaluator.h"

namespace ztc::importer {

/// A table that has too few rows for some sequence.
struct TableLimit {
  int64_t sequence = 0; ///< the longest one for which it has all rows that are asked for
  int64_t rows = 0;     ///< of the table, in the dimension that the sequence counts
  std::string table;    ///< the name that its values have in the graph
};

/// The table that allows the shortest sequence, of those that do not allow `binding.sequence`; none where all do. What
/// asks for rows is Gather by indices that do not depend on data, and Slice of floats to an end that the sequence
/// moves. Tables whose indices are more than some million are passed over: the import says of those what does not fit.
std::optional<TableLimit> findTableLimit(const Model &model, const Liveness &liveness, Binding binding);

/// "the table 'positions.weight' has 64 rows"
std::string describe(const TableLimit &limit);

} // namespace ztc::importer
