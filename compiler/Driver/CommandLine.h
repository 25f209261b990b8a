// Options of ztc that several commands share, and kinds of values. CLI11 throws: what includes this is compiled with
// exceptions.
#pragma once
#include "compiler/Driver/Commands.h"
#include "compiler/Driver/Options.h"
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace ztc::driver {

/// Whole numbers in decimal: CLI11 takes 010 for 8, and an empty text for 0.
extern const CLI::Validator kWhole;

/// A whole number from `least` to `most`.
template <typename Number>
CLI::Option *addWhole(CLI::App &app, const std::string &name, Number &target, const std::string &text, int least,
                      int most) {
  return app.add_option(name, target, text)->transform(kWhole)->check(CLI::Range(least, most));
}

/// Accepts 78GiB, 512MiB, 1e9 and stores bytes; 0 stands for "not given" where the option `needsSome`.
void addSize(CLI::App &app, const std::string &name, uint64_t &target, const std::string &text, bool needsSome);

/// One of an enum's words (Formats.h), which is parsed here and nowhere else; "" is not one to be given.
template <typename Enum>
CLI::Option *addChoice(CLI::App &app, const std::string &name, Enum &target, const std::string &text) {
  std::vector<std::string> words;
  for (std::string_view word : kWords<Enum>)
    if (!word.empty())
      words.emplace_back(word);
  return app
      .add_option_function<std::string>(
          name, [&target](const std::string &word) { target = fromWord<Enum>(word).value_or(target); }, text)
      ->check(CLI::IsMember(words));
}

/// --gpu: one that ztc plan knows.
void addGpu(CLI::App &app, CompileOptions &options, const char *text);

/// What `compile`, `memory` and `check` share, in groups as --help prints them: the model and how it is compiled.
void addModelOptions(CLI::App &app, CompileOptions &options);

/// --gpus, --accumulate and --threads of a command that lays out a plan.
void addShape(CLI::App &app, CompileOptions &options);

/// `ztc plan`: what of a compilation a user may fix, and what is searched.
CLI::App *addPlan(CLI::App &app, CompileOptions &options, TrainingRequest &request, ReportOptions &report);

} // namespace ztc::driver
