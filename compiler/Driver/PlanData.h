// `ztc plan --data`: what the data hold, as `ztc-run` reads them.
#pragma once
#include "compiler/Driver/Commands.h"
#include "compiler/Report/Choices.h"
#include <optional>

namespace ztc::driver {

/// Asks ztc-run (--describe-data) what --data hold in rows of `sequence` tokens; nothing, with the reason in `problem`,
/// where it cannot read them.
std::optional<report::DataUse> describeData(const CompileOptions &options, const TrainingRequest &request,
                                            uint64_t sequence, uint64_t vocabulary, std::string &problem);
/// The options of a run that name the data and how often it is read, each with a space in front.
std::string dataOptions(const CompileOptions &options, const TrainingRequest &request);

} // namespace ztc::driver
