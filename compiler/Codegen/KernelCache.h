// Machine code of earlier compilations.
#pragma once
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <optional>
#include <string>

namespace ztc::codegen {

/// A folder of machine code by what it was made of: a kernel that was compiled before is not compiled again. What is
/// found is held to its checksum; a damaged entry is compiled again. Entries unused for a week are removed, and
/// the oldest ones above 1 GiB. Several processes may share a folder, and threads an object.
///
/// Whoever can write to the folder decides what a plan runs: it is made for its owner alone.
class KernelCache {
public:
  /// Nothing is kept where `folder` is empty.
  explicit KernelCache(llvm::StringRef folder = "");

  /// Makes `folder` where it is missing. Fails where that cannot be done, or nothing can be written there.
  static llvm::Error prepare(llvm::StringRef folder);

  bool isOpen() const { return !folder.empty(); }

  /// The name under which something made of `parts` is kept; the code generator, ours and LLVM's, is one more of them.
  static std::string keyOf(llvm::ArrayRef<llvm::StringRef> parts);

  std::optional<std::string> find(const std::string &key) const;
  /// What cannot be written (a full disk) is not kept.
  void store(const std::string &key, llvm::StringRef bytes) const;

private:
  std::string folder;

  std::string pathOf(const std::string &key) const;
};

/// A file as it is now: its path, size and time of change. Of a file that is missing, its path.
std::string identityOf(llvm::StringRef path);

} // namespace ztc::codegen
