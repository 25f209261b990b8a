#include "compiler/Driver/BesideProgram.h"
#include "compiler/Support/ChildProgram.h"
#include "runtime/Core/File.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include <sys/wait.h>

using namespace llvm;

namespace ztc::driver {
namespace {

constexpr unsigned kMostSeconds = 900;

/// "" where it is not there.
std::string programBeside(StringRef name) {
  static int anchor;
  const std::string self = sys::fs::getMainExecutable(nullptr, &anchor);
  ErrorOr<std::string> found = sys::findProgramByName(name, {sys::path::parent_path(self)});
  return found ? *found : std::string();
}

std::string trimmedText(const std::string &path) {
  StatusOr<std::string> text = readWholeFile(path);
  return text.isOk() ? StringRef(*text).trim().str() : std::string();
}

} // namespace

std::string runBeside(ArrayRef<std::string> words, const ScratchFolder &folder, std::string *output) {
  const std::string program = programBeside(words.front());
  if (program.empty())
    return words.front() + " is not beside ztc";
  const std::string said = folder / "said", written = output ? folder / "written" : said;
  for (const std::string &stale : {said, written}) // of a program before, in the same folder
    (void)sys::fs::remove(stale);
  // ztc removes what it has half done when it is asked to end; a run would go on to its step's end.
  const ChildEnd end = runChild({.path = program,
                                 .words = words.drop_front().vec(),
                                 .written = written,
                                 .said = said,
                                 .seconds = kMostSeconds,
                                 .ending = words.front() == "ztc" ? SIGTERM : SIGKILL});
  if (output)
    *output = trimmedText(written);
  if (!end.status)
    return "it could not be started, or took longer than " + std::to_string(kMostSeconds) + " s";
  if (*end.status == 0)
    return {};
  if (WIFSIGNALED(*end.status))
    return "it was ended by signal " + std::to_string(WTERMSIG(*end.status));
  const std::string all = trimmedText(said), last = StringRef(all).rsplit('\n').second.str();
  return all.empty() ? "status " + std::to_string(WEXITSTATUS(*end.status)) : last.empty() ? all : last;
}

} // namespace ztc::driver
