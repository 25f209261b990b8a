#include "tests/standin/Simt.h"
#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

namespace ztc::simt {

/// The images' imports are found in the program's global scope, wherever this library was loaded from.
static void makeIntrinsicsVisible() {
  static const bool once = [] {
    Dl_info info{};
    if (dladdr(reinterpret_cast<void *>(&makeIntrinsicsVisible), &info) && info.dli_fname)
      dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
    return true;
  }();
  static_cast<void>(once);
}

bool Image::isImage(std::string_view bytes) {
  Elf64_Ehdr header;
  if (bytes.size() < sizeof header)
    return false;
  std::memcpy(&header, bytes.data(), sizeof header);
  return std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_machine == EM_X86_64 && header.e_type == ET_DYN;
}

StatusOr<std::unique_ptr<Image>> Image::load(std::string_view bytes) {
  makeIntrinsicsVisible();
  const int descriptor = memfd_create("ztc-simt", MFD_CLOEXEC);
  if (descriptor < 0)
    return failedPrecondition(fmt::format("no memory file for a simt image: {}", std::strerror(errno)));
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t written = write(descriptor, bytes.data() + done, bytes.size() - done);
    if (written <= 0) {
      close(descriptor);
      return failedPrecondition("no room for a simt image");
    }
    done += size_t(written);
  }
  // By the process's number: what resolves addresses for a sanitizer is another process.
  void *handle = dlopen(fmt::format("/proc/{}/fd/{}", getpid(), descriptor).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char *reason = dlerror();
    close(descriptor);
    return failedPrecondition(fmt::format("a simt image does not load: {}", reason ? reason : "unknown reason"));
  }
  return std::unique_ptr<Image>(new Image(handle, descriptor));
}

Image::~Image() {
  dlclose(handle_);
  close(descriptor_);
}

Entry Image::find(const std::string &kernel) const {
  return reinterpret_cast<Entry>(dlsym(handle_, kernel.c_str()));
}

} // namespace ztc::simt
