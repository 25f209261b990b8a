// What is said of words on the command line that ztc does not know. Of the program alone: CLI11's types stay there.
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
