// The command line of ztc-run.
#pragma once
#include "runtime/Train/Options.h"
#include <string>
#include <variant>

namespace ztc {

/// Text to print instead of a run (help, version).
struct CommandLineText {
  std::string text;
};

/// Instead of a run: which of NVIDIA's libraries are there (--libraries).
struct LibraryQuestion {};

/// Instead of a run: how fast this machine moves what a plan keeps outside the device (--measure-links).
struct LinkQuestion {
  std::string disk; ///< folder; empty: memory alone
};

/// Instead of a run: what --data hold in rows of so many tokens (--describe-data).
struct DataQuestion {
  RunOptions options;
  uint64_t seq = 0;
  uint64_t vocabulary = 0; ///< tokens are in [0, vocabulary)
};

/// Reads arguments and the file of --config; the command line wins. InvalidArgument: usage, exit 2.
StatusOr<std::variant<RunOptions, CommandLineText, LibraryQuestion, LinkQuestion, DataQuestion>>
parseCommandLine(int argc, const char *const *argv);

} // namespace ztc
