// Files of a short while.
#pragma once
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/Twine.h"
#include <string>

namespace ztc {

/// A folder in the system's temporary one, removed with this.
class ScratchFolder {
public:
  /// `path` is empty where none can be made.
  explicit ScratchFolder(llvm::StringRef name);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder &) = delete;
  ScratchFolder &operator=(const ScratchFolder &) = delete;

  /// The path of a file in it.
  std::string operator/(const llvm::Twine &file) const { return (path + "/" + file).str(); }

  std::string path;
};

/// Whether all of `content` is in the file.
bool writeFile(const std::string &path, llvm::StringRef content);

} // namespace ztc
