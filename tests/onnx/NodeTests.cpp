// ONNX's node tests against the importer: ztc-onnx-node-tests CORPUS EXCEPTIONS [--only=TEXT] [--jobs=N]
// [--all-failures] Prints the share that passes and every failure. Exit status 1 where a test fails that is no
// exception, or an exception passes.
#include "tests/onnx/NodeChecks.h"
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace ztc::test;
namespace fs = std::filesystem;

namespace {

/// What a test gave: "types" where its types are not read, "crash" with its checks failed.
struct Record {
  std::string name;
  bool supported = false;
  std::set<std::string> ops;
  Outcomes outcomes;
};

/// Lines "op NAME REASON" and "test NAME CHECK[,CHECK...] REASON".
struct Exceptions {
  std::map<std::string, std::string> ops;
  std::map<std::string, std::set<std::string>> tests;

  bool read(const fs::path &path) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
      std::istringstream words(line);
      std::string kind, name, checks, reason;
      if (!(words >> kind) || kind[0] == '#')
        continue;
      words >> name;
      if (kind == "test")
        words >> checks;
      std::getline(words >> std::ws, reason);
      if (reason.empty() || (kind != "op" && kind != "test")) {
        std::fprintf(stderr, "%s: no exception: %s\n", path.c_str(), line.c_str());
        return false;
      }
      if (kind == "op")
        ops[name] = reason;
      std::istringstream list(checks);
      for (std::string check; std::getline(list, check, ',');)
        tests[name].insert(check);
    }
    return file.eof();
  }
  const std::string *excludedOp(const Record &record) const {
    for (const std::string &op : record.ops)
      if (ops.count(op))
        return &ops.find(op)->first;
    return nullptr;
  }
};

std::string oneLine(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  std::replace(text.begin(), text.end(), '\t', ' ');
  return text.substr(0, 300);
}

/// Runs tests in this process and writes a line before and after each: a crash costs one test.
void work(const std::vector<fs::path> &tests, size_t first, size_t step, const fs::path &output) {
  FILE *file = std::fopen(output.c_str(), "a");
  for (size_t i = first; i < tests.size(); i += step) {
    std::fprintf(file, "begin\t%zu\n", i);
    std::fflush(file);
    std::optional<NodeCase> node = NodeCase::load(tests[i]);
    std::fprintf(file, "ops\t%zu", i);
    if (node)
      for (const std::string &op : node->ops())
        std::fprintf(file, "\t%s", op.c_str());
    std::fprintf(file, "\n");
    std::fflush(file);
    if (node) {
      Outcomes outcomes = runChecks(*node);
      for (size_t check = 0; check < outcomes.size(); ++check)
        std::fprintf(file, "check\t%zu\t%zu\t%d\t%s\n", i, check, int(outcomes[check].kind),
                     oneLine(outcomes[check].reason).c_str());
    }
    std::fprintf(file, "end\t%zu\n", i);
    std::fflush(file);
  }
  std::fclose(file);
}

/// The index of the test that a worker was in when it died; none where it got to the end.
std::optional<size_t> unfinished(const fs::path &output) {
  std::ifstream file(output);
  std::optional<size_t> open;
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("begin\t", 0) == 0)
      open = std::stoul(line.substr(6));
    else if (line.rfind("end\t", 0) == 0)
      open.reset();
  }
  return open;
}

void runWorker(const std::vector<fs::path> &tests, size_t first, size_t step, const fs::path &output) {
  for (size_t next = first; next < tests.size();) {
    pid_t child = fork();
    if (child == 0) {
      alarm(1200); // a hang is a crash
      work(tests, next, step, output);
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    std::optional<size_t> open = unfinished(output);
    if (!open)
      return;
    std::ofstream(output, std::ios::app) << "crash\t" << *open << "\nend\t" << *open << "\n";
    next = *open + step;
  }
}

void readRecords(const fs::path &output, std::vector<Record> &records) {
  std::ifstream file(output);
  for (std::string line; std::getline(file, line);) {
    std::vector<std::string> parts;
    std::istringstream words(line);
    for (std::string part; std::getline(words, part, '\t');)
      parts.push_back(part);
    if (parts.size() < 2)
      continue;
    Record &record = records[std::stoul(parts[1])];
    if (parts[0] == "ops") {
      record.ops.insert(parts.begin() + 2, parts.end());
      record.supported = !record.ops.empty();
    } else if (parts[0] == "check") {
      record.outcomes[std::stoul(parts[2])] = {Outcome::Kind(std::stoi(parts[3])), parts.size() > 4 ? parts[4] : ""};
    } else if (parts[0] == "crash") {
      record.supported = true;
      for (Outcome &outcome : record.outcomes)
        outcome = {Outcome::Failed, "crashed"};
    }
  }
}

struct Share {
  unsigned passed = 0, asked = 0;
  std::string text() const {
    char buffer[64];
    std::snprintf(buffer, sizeof buffer, "%u of %u (%.1f %%)", passed, asked, asked ? 100.0 * passed / asked : 100.0);
    return buffer;
  }
};

/// Prints everything; true where nothing is unexpected.
bool report(const std::vector<Record> &records, const Exceptions &exceptions, bool isWhole) {
  std::array<Share, 5> inScope, supported;
  Share wholeTests, wholeSupported;
  unsigned unexpected = 0, readable = 0;
  std::set<std::string> usedTests;
  std::map<std::string, unsigned> perOp;
  for (const Record &record : records) {
    readable += record.supported;
    if (!record.supported)
      continue;
    const std::string *op = exceptions.excludedOp(record);
    bool all = true;
    for (size_t check = 0; check < kCheckNames.size(); ++check) {
      const Outcome &outcome = record.outcomes[check];
      if (outcome.kind == Outcome::NotAsked)
        continue;
      bool passed = outcome.kind == Outcome::Passed;
      all &= passed;
      supported[check].passed += passed;
      ++supported[check].asked;
      if (op)
        continue;
      inScope[check].passed += passed;
      ++inScope[check].asked;
      auto found = exceptions.tests.find(record.name);
      bool excepted = found != exceptions.tests.end() && found->second.count(kCheckNames[check]);
      if (excepted)
        usedTests.insert(record.name + " " + kCheckNames[check]);
      if (passed == excepted) {
        ++unexpected;
        std::printf("%s %s: %s\n", record.name.c_str(), kCheckNames[check],
                    passed ? "passes, but is an exception" : outcome.reason.c_str());
      }
    }
    wholeSupported.passed += all;
    ++wholeSupported.asked;
    if (op) {
      ++perOp[*op];
      if (all && record.ops.size() == 1) {
        ++unexpected;
        std::printf("%s: passes, but op %s is an exception\n", record.name.c_str(), op->c_str());
      }
      continue;
    }
    wholeTests.passed += all;
    ++wholeTests.asked;
  }
  if (isWhole)
    for (const auto &[name, checks] : exceptions.tests)
      for (const std::string &check : checks)
        if (!usedTests.count(name + " " + check)) {
          ++unexpected;
          std::printf("%s %s: an exception that no test asks for\n", name.c_str(), check.c_str());
        }
  std::printf("\n%zu node tests, %u of types that ztc reads, %u of these without ops that it leaves out\n",
              records.size(), readable, wholeTests.asked);
  std::printf("| check | without these ops | all of these types |\n|---|---|---|\n");
  for (size_t check = 0; check < kCheckNames.size(); ++check)
    std::printf("| %s | %s | %s |\n", kCheckNames[check], inScope[check].text().c_str(),
                supported[check].text().c_str());
  std::printf("| all of them | %s | %s |\n", wholeTests.text().c_str(), wholeSupported.text().c_str());
  std::printf("%u unexpected\n", unexpected);
  return unexpected == 0;
}

} // namespace

int main(int argc, char **argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s CORPUS EXCEPTIONS [--only=TEXT] [--jobs=N]\n", argv[0]);
    return 2;
  }
  std::string only;
  size_t jobs = std::max(1u, std::thread::hardware_concurrency());
  for (int i = 3; i < argc; ++i) {
    if (!std::strncmp(argv[i], "--only=", 7))
      only = argv[i] + 7;
    else if (!std::strncmp(argv[i], "--jobs=", 7))
      jobs = std::max(1, std::atoi(argv[i] + 7));
  }
  Exceptions exceptions;
  if (!exceptions.read(argv[2]))
    return 2;
  std::vector<fs::path> tests;
  std::error_code error;
  for (const auto &entry : fs::directory_iterator(argv[1], error))
    if (fs::exists(entry.path() / "model.onnx") &&
        (only.empty() || entry.path().filename().string().find(only) != std::string::npos))
      tests.push_back(entry.path());
  std::sort(tests.begin(), tests.end());
  if (tests.empty()) {
    std::fprintf(stderr, "%s: no node tests (cmake/get-onnx-node-tests.sh fetches them)\n", argv[1]);
    return 77;
  }
  fs::path folder = fs::temp_directory_path() / ("ztc-node-tests-" + std::to_string(getpid()));
  fs::create_directories(folder);
  std::vector<std::thread> workers;
  for (size_t i = 0; i < jobs; ++i)
    workers.emplace_back(runWorker, std::cref(tests), i, jobs, folder / std::to_string(i));
  std::vector<Record> records(tests.size());
  for (size_t i = 0; i < tests.size(); ++i)
    records[i].name = tests[i].filename();
  for (size_t i = 0; i < jobs; ++i) {
    workers[i].join();
    readRecords(folder / std::to_string(i), records);
  }
  fs::remove_all(folder, error);
  return report(records, exceptions, only.empty()) ? 0 : 1;
}
