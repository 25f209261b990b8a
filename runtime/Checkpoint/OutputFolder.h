// A folder that a run writes into, from its start to its end.
#pragma once
#include "runtime/Core/Status.h"
#include <string>
#include <vector>

namespace ztc {

/// Made where it is missing, locked against other runs while the object lives, and gone again at the end where nothing
/// was written into it. One process of a run holds it.
///
/// The lock is advisory (flock on the folder itself, no file in it): it ends with the process, however that ends. File
/// systems that have no locks give none.
class OutputFolder {
public:
  /// Fails where the folder cannot be made or written, and with FailedPrecondition where another run holds it.
  static StatusOr<OutputFolder> claim(const std::string &folder);
  /// True while a run holds the folder; false where there is none.
  static bool isHeld(const std::string &folder);
  OutputFolder(OutputFolder &&other) noexcept { swap(other); }
  OutputFolder &operator=(OutputFolder &&other) noexcept {
    swap(other);
    return *this;
  }
  ~OutputFolder();
  /// True for any way to write the same folder.
  bool is(const std::string &folder) const;

private:
  OutputFolder() = default;
  void swap(OutputFolder &other) noexcept;
  std::string path_;
  std::vector<std::string> made_; ///< folders that were not there before, innermost first
  int descriptor_ = -1;
};

} // namespace ztc
