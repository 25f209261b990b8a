#include "compiler/Driver/ChoiceRuns.h"
#include "compiler/Driver/BesideProgram.h"
#include "runtime/Core/File.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Chrono.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/StringSaver.h"

using namespace llvm;

namespace ztc::driver {
namespace {

constexpr int kSteps = 5, kUncounted = 2;

/// The words of a printed command, with its plan in `folder`.
std::vector<std::string> wordsOf(const std::string &command, const ScratchFolder &folder) {
  BumpPtrAllocator allocator;
  StringSaver saver(allocator);
  SmallVector<const char *> tokens;
  cl::TokenizeGNUCommandLine(command, saver, tokens);
  std::vector<std::string> words(tokens.begin(), tokens.end());
  for (std::string &word : words)
    if (word == "plan.bin")
      word = folder / "plan.bin";
  return words;
}

/// Calls `visit` for each line of a file that is a JSON object; a file that cannot be read has none.
void forEachObject(const std::string &file, function_ref<void(const json::Object &)> visit) {
  StatusOr<std::string> text = readWholeFile(file);
  if (!text.isOk())
    return;
  for (StringRef line : split(*text, '\n')) {
    Expected<json::Value> value = json::parse(line);
    if (!value)
      consumeError(value.takeError());
    else if (const json::Object *object = value->getAsObject())
      visit(*object);
  }
}

/// Median seconds of the counted steps of a log; 0 where there are none.
double secondsOf(const std::string &log) {
  std::vector<double> seconds;
  forEachObject(log, [&](const json::Object &object) {
    const std::optional<int64_t> step = object.getInteger("step");
    const std::optional<double> time = object.getNumber("step_ms");
    if (step && time && *step >= kUncounted)
      seconds.push_back(*time / 1e3);
  });
  if (seconds.empty())
    return 0;
  sort(seconds);
  return seconds[seconds.size() / 2];
}

ChoiceRun runOne(const report::TrainingChoice &choice) {
  ChoiceRun run{choice, 0, {}};
  const ScratchFolder folder("ztc-plan-verify");
  if (folder.path.empty()) {
    run.problem = "the folder for temporary files cannot be written";
    return run;
  }
  run.problem = runBeside(wordsOf(choice.compile, folder), folder);
  if (!run.problem.empty())
    return run;
  // Of the run's options those that say where and how much, not what is learnt.
  std::vector<std::string> words{"ztc-run"};
  for (const std::string &word : wordsOf(choice.run, folder))
    if (any_of(ArrayRef<StringRef>{"--gpus=", "--device=", "--ranks=", "--accumulate=", "--clip="},
               [&](StringRef name) { return StringRef(word).starts_with(name); }) ||
        StringRef(word).ends_with("plan.bin"))
      words.push_back(word);
  words.insert(words.end(), {"--steps=" + std::to_string(kSteps), "--no-save", "--log-json=" + folder / "log"});
  run.problem = runBeside(words, folder);
  if (run.problem.empty())
    run.measuredSeconds = secondsOf(folder / "log");
  return run;
}

void keep(const report::ChoiceTable &table, const ChoiceRun &run, const std::string &file) {
  if (file.empty() || sys::fs::create_directories(sys::path::parent_path(file)))
    return;
  std::error_code error;
  raw_fd_ostream out(file, error, sys::fs::CD_OpenAlways, sys::fs::FA_Write, sys::fs::OF_Append);
  if (error)
    return;
  const std::string date = formatv("{0:%Y-%m-%d}", std::chrono::system_clock::now());
  out << json::Value(json::Object{{"device", table.device},
                                  {"date", date},
                                  {"model", table.model},
                                  {"precision", table.precision},
                                  {"method", wordOf(run.choice.method)},
                                  {"gpus", int64_t(run.choice.world)},
                                  {"predicted_seconds", run.choice.seconds},
                                  {"measured_seconds", run.measuredSeconds}})
      << "\n";
  out.close();
  out.clear_error(); // a full disk costs this line, not the program
}

} // namespace

std::vector<ChoiceRun> runChoices(const report::ChoiceTable &table, unsigned count, const std::string &file) {
  std::vector<ChoiceRun> runs;
  if (table.recommended.empty())
    return runs;
  const report::TrainingChoice &first = table.choices[table.recommended.front()];
  std::vector<const report::TrainingChoice *> group;
  for (const report::TrainingChoice &choice : table.choices)
    if (choice.method == first.method && choice.changes == first.changes)
      group.push_back(&choice);
  sort(group, [](const auto *a, const auto *b) { return a->tokensPerSecond() > b->tokensPerSecond(); });
  for (const report::TrainingChoice *choice : ArrayRef(group).take_front(count)) {
    runs.push_back(runOne(*choice));
    if (runs.back().measuredSeconds > 0)
      keep(table, runs.back(), file);
  }
  return runs;
}

void printRuns(raw_ostream &out, ArrayRef<ChoiceRun> runs) {
  out << "\nrun here, five steps each, the first two not counted\n ranks  zero  batch     M   predicted    measured   "
         "measured/predicted\n";
  for (const ChoiceRun &run : runs) {
    const report::TrainingChoice &row = run.choice;
    out << formatv("{0,6} {1,5} {2,6} {3,5} {4,9:F3} s ", row.world, row.stage, row.batch, row.accumulate, row.seconds);
    if (run.measuredSeconds > 0)
      out << formatv("{0,9:F3} s {1,20:F2}\n", run.measuredSeconds, run.measuredSeconds / row.seconds);
    else
      out << "  did not run: " << run.problem << "\n";
  }
}

std::optional<report::ErrorSeen> errorSeen(const std::string &file, const std::string &device) {
  report::ErrorSeen seen;
  if (!file.empty())
    forEachObject(file, [&](const json::Object &object) {
      const double predicted = object.getNumber("predicted_seconds").value_or(0),
                   measured = object.getNumber("measured_seconds").value_or(0);
      if (object.getString("device") != StringRef(device) || !(predicted > 0) || !(measured > 0))
        return;
      const double ratio = measured / predicted;
      seen.least = seen.runs ? std::min(seen.least, ratio) : ratio;
      seen.most = std::max(seen.most, ratio);
      seen.date = object.getString("date").value_or("").str();
      ++seen.runs;
    });
  return seen.runs ? std::optional(seen) : std::nullopt;
}

} // namespace ztc::driver
