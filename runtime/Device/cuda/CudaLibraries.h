// NVIDIA's libraries, opened at run time; nothing of them is needed to build.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Device/cuda/CublasLtApi.h"
#include "runtime/Device/cuda/CudaApi.h"
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace ztc {

/// Where the libraries are. Empty: their usual names.
struct CudaLibraryPaths {
  std::string driver;   ///< main fills it from ZTC_LIBCUDA
  std::string cublasLt; ///< ZTC_LIBCUBLASLT
  std::string nccl;     ///< ZTC_LIBNCCL
  std::string nvml;     ///< ZTC_LIBNVML
  std::string cudnn;    ///< ZTC_LIBCUDNN
  /// libztc-cudnn.so, through which cuDNN is called; ZTC_CUDNN_MODULE. Empty: beside the program or in ../lib.
  std::string cudnnModule;
  /// Where libraries other than the driver's are looked for once the loader has not found them by their names:
  /// cudaLibraryFolders().
  std::vector<std::string> folders;
  /// Not where ZTC_CUDA_PDL is 0: generated kernels are launched while the ones before them end, where GPU and driver
  /// know how.
  bool overlapsLaunches = true;
  bool useCudnn = true; ///< not where ZTC_CUDNN is 0: attention then takes the plan's own kernels
  /// ZTC_STAND_INS: the folder with the stand-ins of the tests (tests/standin). They take the places of all libraries;
  /// there is no other way to load one.
  std::string standIns;
  std::string visibleDevices; ///< CUDA_VISIBLE_DEVICES, for the message where no GPU is left
};

/// How one library is found and called in messages.
struct CudaLibraryName {
  const char *title;    ///< "the NVIDIA driver"
  const char *variable; ///< of the environment, overrides the names
  const char *standIn;  ///< file name in the folder of stand-ins
  const char *advice;   ///< what to do where it is missing
  const char *names[3]; ///< to try in order; null: none
};

inline constexpr CudaLibraryName kDriverName = {
    "the NVIDIA driver",
    "ZTC_LIBCUDA",
    "libztc-standin-cuda.so",
    "this host has no GPU, or its driver is not visible here (in a container: start it with the NVIDIA runtime)",
    {"libcuda.so.1"}}; // never libcuda.so: that may be the stub for linking
inline constexpr CudaLibraryName kCublasLtName = {
    "cuBLASLt",
    "ZTC_LIBCUBLASLT",
    "libztc-standin-cublaslt.so",
    "install CUDA's cuBLAS (PyPI: nvidia-cublas) and put its folder into LD_LIBRARY_PATH",
    {"libcublasLt.so.13", "libcublasLt.so.12"}};
inline constexpr CudaLibraryName kCudnnName = {
    "cuDNN",
    "ZTC_LIBCUDNN",
    "libztc-standin-cudnn.so",
    "install it (PyPI: nvidia-cudnn-cu13) and put its folder into LD_LIBRARY_PATH",
    {"libcudnn.so.9"}};
inline constexpr CudaLibraryName kNcclName = {
    "NCCL",
    "ZTC_LIBNCCL",
    "libztc-standin-nccl.so",
    "several GPUs need it: install it (PyPI: nvidia-nccl) and put its folder into LD_LIBRARY_PATH",
    {"libnccl.so.2"}};
inline constexpr CudaLibraryName kNvmlName = {
    "NVML", "ZTC_LIBNVML", "libztc-standin-nvml.so", "it comes with the driver", {"libnvidia-ml.so.1"}};

/// Opens a library; never unloaded. `path` overrides the names; by its names it is the loader's, else the first in
/// `paths.folders`. Fails (FailedPrecondition) with the loader's words and the advice, and where a stand-in of the
/// tests was found without being asked for.
StatusOr<void *> openCudaLibrary(const CudaLibraryName &name, const std::string &path, const CudaLibraryPaths &paths);
/// The file of an open library.
std::string libraryFile(void *library);
/// Opens what libraries open by name themselves (cuDNN: NVRTC, cuBLASLt) where only `paths.folders` have it: the loader
/// then knows it.
void openCompanions(std::initializer_list<const char *> names, const CudaLibraryPaths &paths);
/// Fails with what the library lacks.
Status missingSymbol(const CudaLibraryName &name, const char *symbol);

/// The driver's functions by their own names.
struct CudaDriver {
#define ZTC_DECLARE(function, arguments) cuda::Result(*function) arguments = nullptr;
  using Result = cuda::Result;
  using GpuIndex = cuda::GpuIndex;
  using Address = cuda::Address;
  using Context = cuda::Context;
  using Module = cuda::Module;
  using Function = cuda::Function;
  using Stream = cuda::Stream;
  using Event = cuda::Event;
  using Graph = cuda::Graph;
  using GraphExec = cuda::GraphExec;
  using Uuid = cuda::Uuid;
  using MemoryHandle = cuda::MemoryHandle;
  using MemoryProperties = cuda::MemoryProperties;
  using MemoryAccess = cuda::MemoryAccess;
  using LaunchConfiguration = cuda::LaunchConfiguration;
  ZTC_CUDA_FUNCTIONS(ZTC_DECLARE)
#undef ZTC_DECLARE
  int version = 0;            ///< of CUDA that the driver supports at most: 1000 major + 10 minor
  std::string emulatedTarget; ///< of its GPUs, see Gpu
  void *library = nullptr;    ///< the loader's handle

  /// Ok, or an error that names the call and CUDA's reason: ResourceExhausted where memory is out, else Unavailable.
  Status check(Result result, const char *what) const;

  /// Loads and initializes the driver. Fails (FailedPrecondition) with what was found and what to do: no library, no
  /// GPU, a driver that is too old.
  Status open(const CudaLibraryPaths &paths);
  /// Once per process: the first call that succeeds counts.
  static StatusOr<const CudaDriver *> load(const CudaLibraryPaths &paths);
};

/// "13.0" of 13000.
std::string cudaVersionText(int version);

/// A GPU that this process may use.
struct Gpu {
  cuda::GpuIndex index = 0;
  std::string name;
  std::string busId;
  std::string uuid;         ///< "GPU-..." or, of a slice that shares its GPU with others (MIG), "MIG-..."
  int major = 0, minor = 0; ///< compute capability
  uint64_t totalBytes = 0;
  int multiprocessors = 0;
  /// "sm_90".
  std::string architecture() const;
  /// One of several parts of a GPU, with memory and multiprocessors of its own.
  bool isSlice() const { return uuid.rfind("MIG-", 0) == 0; }
  /// The one target whose kernels it executes where it is emulated ("simt"); empty: a GPU, with its machine code.
  std::string emulatedTarget;
  bool isEmulated() const { return !emulatedTarget.empty(); }
  /// What to compile for it: "sm_90a", "simt".
  std::string target() const;
  /// True where machine code for `target` ("sm_80", "sm_90a") runs on such a GPU.
  bool runs(const std::string &target) const;
  /// True where kernels compiled for `target` are executed here: runs(), or the emulated target.
  bool executes(const std::string &target) const { return isEmulated() ? target == emulatedTarget : runs(target); }
};

/// Those that CUDA_VISIBLE_DEVICES leaves, at least one.
StatusOr<std::vector<Gpu>> listGpus(const CudaDriver &driver);

/// cuBLASLt's functions by their own names.
struct CublasLt {
  using Status = cublaslt::Status;
  using Handle = cublaslt::Handle;
  using Description = cublaslt::Description;
  using Layout = cublaslt::Layout;
  using Preference = cublaslt::Preference;
  using Algorithm = cublaslt::Algorithm;
  using HeuristicResult = cublaslt::HeuristicResult;
#define ZTC_DECLARE(function, result, arguments) result(*function) arguments = nullptr;
  ZTC_CUBLASLT_FUNCTIONS(ZTC_DECLARE)
#undef ZTC_DECLARE
  std::string version; ///< "cuBLASLt 13.1.0"

  ::ztc::Status check(Status status, const char *what) const;
  /// Fails (FailedPrecondition) where the library is missing, or newer than the driver can run.
  ::ztc::Status open(const CudaLibraryPaths &paths, const CudaDriver &driver);
  /// Once per process: the first call that succeeds counts.
  static StatusOr<const CublasLt *> load(const CudaLibraryPaths &paths, const CudaDriver &driver);
};

} // namespace ztc
