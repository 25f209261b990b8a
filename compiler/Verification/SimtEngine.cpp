#include "compiler/Verification/SimtEngine.h"
#include "compiler/Support/LibraryFolder.h"
#include <dlfcn.h>

namespace ztc::verification {
namespace {

/// The functions of tests/standin/SimtCalls.cpp.
struct Engine {
  void *(*load)(const char *bytes, uint64_t count, char *error, uint64_t room) = nullptr;
  void (*unload)(void *image) = nullptr;
  int (*run)(void *image, const char *kernel, uint32_t blocks, uint64_t firstBlock, uint64_t someBlocks,
             uint32_t threads, int descending, const uint64_t *words, uint64_t count, const uint64_t *sizes,
             uint64_t buffers, char *error, uint64_t room) = nullptr;
};

/// Null where it is not installed.
const Engine *engine() {
  static const Engine *opened = []() -> const Engine * {
    const llvm::StringRef name = "libztc-simt.so";
    const std::string folder = installedFolder({"", "ztc/standin"}, name); // of a build, as it is installed
    void *library = folder.empty() ? nullptr : dlopen((folder + "/" + name).str().c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (!library)
      return nullptr;
    static Engine found;
    found.load = reinterpret_cast<decltype(found.load)>(dlsym(library, "ztcSimtLoad"));
    found.unload = reinterpret_cast<decltype(found.unload)>(dlsym(library, "ztcSimtUnload"));
    found.run = reinterpret_cast<decltype(found.run)>(dlsym(library, "ztcSimtRun"));
    return found.load && found.unload && found.run ? &found : nullptr;
  }();
  return opened;
}

} // namespace

llvm::Expected<SimtImage> SimtImage::load(llvm::StringRef bytes) {
  if (!engine())
    return llvm::createStringError("the engine that runs them on a processor (libztc-simt.so) is not installed");
  char error[512] = "";
  void *image = engine()->load(bytes.data(), bytes.size(), error, sizeof error);
  if (!image)
    return llvm::createStringError(error);
  return SimtImage(std::shared_ptr<void>(image, engine()->unload));
}

llvm::Error SimtImage::run(const SimtLaunch &launch) const {
  char error[512] = "";
  if (engine()->run(handle.get(), launch.kernel.c_str(), launch.blocks, launch.first, launch.count, launch.threads,
                    launch.descending, launch.words.data(), launch.words.size(), launch.sizes.data(),
                    launch.sizes.size(), error, sizeof error) == 0)
    return llvm::Error::success();
  return llvm::createStringError(error);
}

} // namespace ztc::verification
