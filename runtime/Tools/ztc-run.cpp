// ztc-run: trains a plan. Reads the environment, once, and turns a Status into an exit status.
#include "runtime/Tools/CommandLine.h"
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <fmt/format.h>
#include <string_view>

using namespace ztc;

namespace {

/// 1 failed, 2 usage. (0: done, 3: stopped by a signal, resumable.)
constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;

int report(const Status &status, int exitStatus) {
  fmt::print(stderr, "ztc-run: error: {}\n", status.message());
  return exitStatus;
}

} // namespace

int main(int argc, char **argv) {
  auto parsed = parseCommandLine(argc, argv);
  if (!parsed.isOk())
    return report(parsed.status(), kExitUsage);
  if (auto *text = std::get_if<CommandLineText>(&*parsed)) {
    fmt::print("{}", text->text);
    return 0;
  }
  return kExitFailed;
}
