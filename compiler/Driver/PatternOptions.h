// `--patterns=FILE`: rewrites without C++ in the pipeline, by the hooks that plugins use.
#pragma once
#include "compiler/Driver/Plugin.h"

namespace ztc::driver {

/// Registers ztc-apply-patterns for "FILE", which ",after=PHASE", ",before=PHASE" or ",after=loss" may follow (by
/// default after import), and ",keeps=changes" or ",keeps=bits" where the patterns do not keep just the meaning.
/// `identity` gets the file's name, its place and 16 digits of its SHA-256. Fails with a message to stderr.
llvm::LogicalResult registerPatterns(llvm::StringRef text, PhaseHooks &hooks, std::string &identity);

} // namespace ztc::driver
