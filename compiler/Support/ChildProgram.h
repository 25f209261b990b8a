// Programs that the compiler runs: they end when it does.
#pragma once
#include "llvm/ADT/ArrayRef.h"
#include <csignal>
#include <optional>
#include <string>
#include <vector>

namespace ztc {

struct ChildProgram {
  std::string path;
  std::vector<std::string> words;                           ///< what follows its name
  std::optional<std::vector<std::string>> environment = {}; ///< "NAME=value" each; none: this process's
  std::string written = "/dev/null";                        ///< the file that gets its stdout, at its end
  std::string said = "/dev/null";                           ///< the same for its stderr; both may be one file
  std::optional<unsigned> seconds = {};                     ///< after so many it is killed; none: never
  int ending = SIGKILL;                                     ///< the signal that it gets when this process ends
};

/// How a program ended.
struct ChildEnd {
  std::optional<int> status = {}; ///< as of waitpid(); none where it could not be started, or took too long
  bool isLate = false;            ///< it took too long
};

/// Runs it to its end, with nothing on its stdin. Whatever ends this process, SIGKILL too, ends the program by
/// `ending`.
ChildEnd runChild(const ChildProgram &program);

} // namespace ztc
