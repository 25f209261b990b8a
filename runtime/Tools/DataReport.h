// What data hold, before there is a plan.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Train/Options.h"
#include <cstdint>
#include <string>

namespace ztc {

/// For --describe-data: --data in rows of `seq` tokens, packed with --pack, as one object of JSON: rows, tokens (rows
/// times `seq`), tokens_without_padding (as in a run's log), targets that count, padding_share, and of packed rows
/// documents, cut and dropped. Of more than 65536 rows as many are counted, spread evenly. `vocabulary` is the model's.
/// Fails as a run with these data would.
StatusOr<std::string> dataReport(const RunOptions &options, uint64_t seq, uint64_t vocabulary);

} // namespace ztc
