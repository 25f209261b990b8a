#include "compiler/Driver/BesideProgram.h"
#include "runtime/Core/File.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"

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
  SmallVector<StringRef> arguments(words.begin(), words.end());
  arguments.front() = program;
  const std::string said = folder / "said", written = output ? folder / "written" : said;
  const std::optional<StringRef> streams[] = {StringRef(""), StringRef(written), StringRef(said)};
  std::string error;
  const int status = sys::ExecuteAndWait(program, arguments, std::nullopt, streams, kMostSeconds, 0, &error);
  if (output)
    *output = trimmedText(written);
  if (status == 0)
    return {};
  const std::string all = trimmedText(said), last = StringRef(all).rsplit('\n').second.str();
  return !error.empty() ? error : all.empty() ? "status " + std::to_string(status) : last.empty() ? all : last;
}

} // namespace ztc::driver
