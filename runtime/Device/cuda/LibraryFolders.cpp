#include "runtime/Device/cuda/LibraryFolders.h"
#include "runtime/Core/Sizes.h"
#include <algorithm>
#include <dlfcn.h>
#include <fmt/format.h>
#include <glob.h>
#include <unistd.h>

namespace ztc {
namespace {

class Folders {
public:
  /// Folders that match, the last by name first: cuda-13.0 before cuda-12.4.
  void add(const std::string &pattern) {
    glob_t found{};
    if (glob(pattern.c_str(), GLOB_ONLYDIR, nullptr, &found) == 0)
      for (size_t i = found.gl_pathc; i-- > 0;)
        if (const std::string folder = found.gl_pathv[i]; std::ranges::find(all, folder) == all.end())
          all.push_back(folder);
    globfree(&found);
  }
  /// Below the root of a Python environment.
  void addEnvironment(const std::string &root) {
    if (root.empty())
      return;
    for (const char *packages : {"site-packages", "dist-packages"})
      add(root + "/lib/python3*/" + packages + "/nvidia/*/lib");
  }
  void addToolkit(const std::string &root) {
    if (root.empty())
      return;
    add(root + "/lib64");
    add(root + "/targets/x86_64-linux/lib");
  }

  std::vector<std::string> all;
};

/// The folder above the one that has the first python3 of PATH; links are kept, they are what makes an environment.
std::string pythonRoot(const std::string &path) {
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find(':', begin), path.size());
    const std::string folder = path.substr(begin, end - begin);
    if (!folder.empty() && access((folder + "/python3").c_str(), X_OK) == 0)
      return folder + "/..";
    begin = end + 1;
  }
  return {};
}

} // namespace

std::vector<std::string> cudaLibraryFolders(const std::function<std::string(const char *)> &variable) {
  Folders folders;
  for (const char *name : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    folders.addEnvironment(variable(name));
  if (const std::string conda = variable("CONDA_PREFIX"); !conda.empty())
    folders.add(conda + "/lib");
  folders.addEnvironment(pythonRoot(variable("PATH")));
  if (const std::string home = variable("HOME"); !home.empty())
    folders.addEnvironment(home + "/.local");
  folders.addEnvironment("/usr/local");
  for (const char *name : {"CUDA_HOME", "CUDA_PATH"})
    folders.addToolkit(variable(name));
  for (const char *root : {"/usr/local/cuda", "/usr/local/cuda-*", "/opt/cuda"})
    folders.addToolkit(root);
  return folders.all;
}

CudaLibraryPaths cudaLibraryPaths(const std::function<std::string(const char *)> &variable) {
  return {.driver = variable("ZTC_LIBCUDA"),
          .cublasLt = variable("ZTC_LIBCUBLASLT"),
          .nccl = variable("ZTC_LIBNCCL"),
          .nvml = variable("ZTC_LIBNVML"),
          .cudnn = variable("ZTC_LIBCUDNN"),
          .cudnnModule = variable("ZTC_CUDNN_MODULE"),
          .folders = cudaLibraryFolders(variable),
          .overlapsLaunches = variable("ZTC_CUDA_PDL") != "0",
          .useCudnn = variable("ZTC_CUDNN") != "0",
          .standIns = variable("ZTC_STAND_INS"),
          .visibleDevices = variable("CUDA_VISIBLE_DEVICES")};
}

/// A library that tells its version by a function without a handle.
static std::string describe(const CudaLibraryName &name, const std::string &path, const CudaLibraryPaths &paths,
                            const std::function<std::string(void *)> &version) {
  const StatusOr<void *> library = openCudaLibrary(name, path, paths);
  return library.isOk() ? fmt::format("{} {}, {}", name.title, version(*library), libraryFile(*library))
                        : library.status().message();
}

/// "13.1.0" of 130100, as all of them count.
static std::string versionText(size_t number) {
  return fmt::format("{}.{}.{}", number / 10000, number % 10000 / 100, number % 100);
}

std::string describeCudaLibraries(const CudaLibraryPaths &paths) {
  std::string text;
  const auto line = [&](const std::string &words) { text += words + "\n"; };
  const StatusOr<const CudaDriver *> driver = CudaDriver::load(paths);
  if (!driver.isOk()) {
    line(driver.status().message());
  } else {
    line(fmt::format("{} for CUDA {}, {}", kDriverName.title, cudaVersionText((*driver)->version),
                     libraryFile((*driver)->library)));
    if (const StatusOr<std::vector<Gpu>> gpus = listGpus(**driver); gpus.isOk())
      for (const Gpu &gpu : *gpus)
        line(fmt::format("{}, {}, {}, {} multiprocessors, bus {}, {}", gpu.name, gpu.architecture(),
                         formatSize(gpu.totalBytes), gpu.multiprocessors, gpu.busId, gpu.uuid));
    else
      line(gpus.status().message());
  }
  const auto number = [](void *library, const char *function) -> size_t {
    const auto version = reinterpret_cast<size_t (*)()>(dlsym(library, function));
    return version ? version() : 0;
  };
  line(describe(kCublasLtName, paths.cublasLt, paths,
                [&](void *library) { return versionText(number(library, "cublasLtGetVersion")); }));
  line(describe(kCudnnName, paths.cudnn, paths,
                [&](void *library) { return versionText(number(library, "cudnnGetVersion")); }));
  line(describe(kNcclName, paths.nccl, paths, [](void *library) -> std::string {
    int version = 0;
    if (const auto get = reinterpret_cast<int (*)(int *)>(dlsym(library, "ncclGetVersion")))
      get(&version);
    return versionText(size_t(version));
  }));
  line(describe(kNvmlName, paths.nvml, paths, [](void *) { return std::string("is there"); }));
  return text;
}

} // namespace ztc
