// Messages for commands and options that ztc does not have. Linked into the program alone: the library does not see
// CLI11.
#pragma once
#include <CLI/CLI.hpp>
#include <string>

namespace ztc::driver {

bool isCommand(const CLI::App &app, const std::string &word);
/// The first word on the command line is not a command.
std::string unknownCommand(const CLI::App &app, const std::string &word);
/// A word after a command that it does not know.
std::string unknownOption(const CLI::App &command, int argc, char **argv);

} // namespace ztc::driver
