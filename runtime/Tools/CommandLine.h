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

/// Reads arguments and the file of --config; the command line wins. InvalidArgument: usage, exit 2.
StatusOr<std::variant<RunOptions, CommandLineText, LibraryQuestion>> parseCommandLine(int argc,
                                                                                      const char *const *argv);

} // namespace ztc
