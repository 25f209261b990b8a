// Machine code that stands in memory, as a loaded library.
#pragma once
#include "runtime/Core/Status.h"
#include <string>
#include <string_view>

namespace ztc {

/// An ELF shared object, loaded as long as this lives.
class LoadedImage {
public:
  /// From a memory file, or a temporary one where the system allows none. FailedPrecondition where neither loads.
  static StatusOr<LoadedImage> load(std::string_view bytes);
  LoadedImage(LoadedImage &&other) noexcept;
  LoadedImage &operator=(LoadedImage &&other) noexcept;
  ~LoadedImage();

  /// The address of a symbol; null where there is none.
  void *find(const std::string &symbol) const;

private:
  LoadedImage(void *handle, int descriptor) : handle_(handle), descriptor_(descriptor) {}

  void *handle_ = nullptr;
  /// Stays open as long as the library lives: dlopen matches by name, and a reused number is an old name.
  int descriptor_ = -1;
};

} // namespace ztc
