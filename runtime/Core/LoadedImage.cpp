#include "runtime/Core/LoadedImage.h"
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

namespace ztc {

static bool writeAll(int descriptor, std::string_view bytes) {
  size_t done = 0;
  while (done < bytes.size()) {
    ssize_t written = write(descriptor, bytes.data() + done, bytes.size() - done);
    if (written <= 0)
      return false;
    done += size_t(written);
  }
  return true;
}

StatusOr<LoadedImage> LoadedImage::load(std::string_view bytes) {
  LoadedImage image(nullptr, memfd_create("ztc-kernels", MFD_CLOEXEC));
  if (image.descriptor_ >= 0 && writeAll(image.descriptor_, bytes))
    image.handle_ = dlopen(fmt::format("/proc/self/fd/{}", image.descriptor_).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (image.handle_)
    return image;
  // Some systems forbid executable memory files (vm.memfd_noexec=2) or hide /proc: a file that is gone once it is
  // loaded.
  if (image.descriptor_ >= 0)
    close(std::exchange(image.descriptor_, -1));
  std::error_code none; // $TMPDIR, or else /tmp
  const std::filesystem::path folder = std::filesystem::temp_directory_path(none);
  std::string path = (none ? "/tmp" : folder.string()) + "/ztc-kernels-XXXXXX";
  int file = mkstemp(path.data());
  if (file < 0)
    return failedPrecondition(
        fmt::format("cannot load generated kernels: neither memory files nor {} can be written", path));
  bool written = writeAll(file, bytes);
  close(file);
  if (written)
    image.handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  const char *reason = written ? dlerror() : "disk full";
  std::string message = reason ? reason : "unknown reason";
  unlink(path.c_str());
  if (!image.handle_)
    return failedPrecondition(fmt::format("cannot load generated kernels: {}", message));
  return image;
}

LoadedImage::LoadedImage(LoadedImage &&other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)), descriptor_(std::exchange(other.descriptor_, -1)) {}

LoadedImage &LoadedImage::operator=(LoadedImage &&other) noexcept {
  std::swap(handle_, other.handle_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

LoadedImage::~LoadedImage() {
  if (handle_)
    dlclose(handle_);
  if (descriptor_ >= 0)
    close(descriptor_);
}

void *LoadedImage::find(const std::string &symbol) const {
  return dlsym(handle_, symbol.c_str());
}

} // namespace ztc
