#include "compiler/Driver/UnknownWords.h"
#include "runtime/Core/NearestName.h"
#include <algorithm>
#include <vector>

namespace ztc::driver {
namespace {

/// Options of ztc-run that people give to ztc.
constexpr const char *kRunOptions[] = {"--data",   "--steps", "--epochs",   "--lr",     "--schedule", "--warmup",
                                       "--clip",   "--save",  "--resume",   "--export", "--log-json", "--eval-data",
                                       "--device", "--ranks", "--generate", "--init",   "--shuffle",  "--weight-decay"};

std::vector<std::string> optionNames(const CLI::App &command) {
  std::vector<std::string> names;
  for (const CLI::Option *option : command.get_options())
    for (const std::string &name : option->get_lnames())
      names.push_back("--" + name);
  return names;
}

} // namespace

bool isCommand(const CLI::App &app, const std::string &word) {
  for (const CLI::App *command : app.get_subcommands(nullptr))
    if (command->get_name() == word)
      return true;
  return false;
}

std::string unknownCommand(const CLI::App &app, const std::string &word) {
  std::vector<std::string> names;
  std::string list;
  for (const CLI::App *command : app.get_subcommands(nullptr)) {
    names.push_back(command->get_name());
    list += (list.empty() ? "" : ", ") + command->get_name();
  }
  const std::string meant = nearestName(word, names);
  const bool isFile = word.find('/') != std::string::npos || word.find('.') != std::string::npos;
  return "unknown command '" + word + "'" +
         (!meant.empty() ? ", did you mean " + meant + "?"
          : isFile       ? ": a command comes before the file, as in ztc compile " + word + "."
                         : ".") +
         " Commands are " + list;
}

std::string unknownOption(const CLI::App &command, int argc, char **argv) {
  const std::vector<std::string> known = optionNames(command);
  const std::string help = "; see ztc " + command.get_name() + " --help";
  for (int i = 2; i < argc; ++i) {
    const std::string word(argv[i]), name = word.substr(0, word.find('='));
    if (!word.starts_with("--") || std::find(known.begin(), known.end(), name) != known.end())
      continue;
    if (std::find(std::begin(kRunOptions), std::end(kRunOptions), name) != std::end(kRunOptions))
      return name + " is not an option of ztc " + command.get_name() + ": ztc-run has it";
    const std::string meant = nearestName(name, known);
    return "ztc " + command.get_name() + " has no option " + name +
           (meant.empty() ? "" : ", did you mean " + meant + "?") + help;
  }
  const std::vector<std::string> rest = command.remaining();
  return "'" + (rest.empty() ? std::string() : rest.front()) + "' is one word too many" + help;
}

} // namespace ztc::driver
