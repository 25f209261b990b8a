// Files of a short while.
#pragma once
#include "compiler/Support/EndBySignal.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/Twine.h"
#include <optional>
#include <string>
#include <system_error>

namespace ztc {

/// A folder in the system's temporary one, removed with this, and by signals that end the program (EndBySignal.h).
class ScratchFolder {
public:
  /// `path` is empty where none can be made, for `error`.
  explicit ScratchFolder(llvm::StringRef name);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder &) = delete;
  ScratchFolder &operator=(const ScratchFolder &) = delete;

  /// The path of a file in it.
  std::string operator/(const llvm::Twine &file) const { return (path + "/" + file).str(); }

  std::string path;
  std::error_code error;

private:
  std::optional<RemovedBySignal> removed_;
};

/// Whether all of `content` is in the file.
bool writeFile(const std::string &path, llvm::StringRef content);

/// What to do where the system's temporary folder takes no file: how scratchProblem() ends.
inline constexpr llvm::StringLiteral kScratchAdvice = "; free some space there, or name another folder with TMPDIR";
/// A message about a file of a short while that could not be written: `what` failed for `error`.
std::string scratchProblem(const llvm::Twine &what, std::error_code error);

} // namespace ztc
