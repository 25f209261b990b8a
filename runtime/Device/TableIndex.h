// What devices say of a row that a table does not have.
#pragma once
#include "runtime/Core/Status.h"
#include <cstdint>
#include <fmt/format.h>

namespace ztc {

/// InvalidArgument of index `index`, the one at `position` among all that a step looks up or adds to. Tables are those
/// of tokens, and any other whose indices a model computes.
inline Status outsideTable(int32_t index, uint64_t position, uint64_t rows) {
  return invalidArgument(fmt::format("index {} at position {} is outside the table of {} rows: a token of another "
                                     "vocabulary, or computed by the model, of numbers that are not finite for one",
                                     index, position, rows));
}

} // namespace ztc
