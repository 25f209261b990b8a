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

/// Reads arguments and the file of --config; the command line wins. InvalidArgument: usage, exit 2.
StatusOr<std::variant<RunOptions, CommandLineText, LibraryQuestion, LinkQuestion>>
parseCommandLine(int argc, const char *const *argv);

} // namespace ztc
