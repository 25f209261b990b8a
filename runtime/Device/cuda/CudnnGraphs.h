// Attention by cuDNN on one GPU, through libztc-cudnn.so.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Device/cuda/CudaLibraries.h"
#include "runtime/Device/cuda/cudnn/CudnnModule.h"
#include <map>
#include <string>

namespace ztc {

/// A module and a library that are loaded and fit each other.
struct CudnnLibrary {
  const ZtcCudnnFunctions *functions = nullptr;
  void *library = nullptr;
};

/// Loads both, once per process: the first call that succeeds counts. Fails (FailedPrecondition) with what is missing.
StatusOr<CudnnLibrary> loadCudnn(const CudaLibraryPaths &paths);

/// "9.26.0" of 92600.
std::string cudnnVersionText(uint64_t version);

/// Why this version of cuDNN is not used for a call; empty where it is.
std::string cudnnVersionObstacle(uint64_t version, const ZtcCudnnAttention &shape);

/// Calls of one device, each planned once however many steps make it.
class CudnnGraphs {
public:
  explicit CudnnGraphs(const CudaDriver &driver) : driver_(driver) {}
  ~CudnnGraphs() { close(); }
  CudnnGraphs(const CudnnGraphs &) = delete;
  CudnnGraphs &operator=(const CudnnGraphs &) = delete;

  /// The graph of a call that takes at most `workspaceBytes`; it lives as long as this. Fails with the reason where
  /// cuDNN cannot make it: it is missing, too old, has no engine, or wants more.
  StatusOr<ZtcCudnnGraph *> find(const ZtcCudnnAttention &shape, uint64_t workspaceBytes, const CudaLibraryPaths &paths,
                                 const Gpu &gpu);
  /// Whether a deterministic gradient has two ways here: ZtcCudnnAttention::linearWorkspace. False before find().
  bool hasTwoGradients(const Gpu &gpu) const;
  /// What a call that find() has asked for takes; 0 where cuDNN refused it.
  uint64_t workspaceOf(const ZtcCudnnAttention &shape) const;
  /// Enqueues it; `tensors` by ZTC_CUDNN_*.
  Status execute(ZtcCudnnGraph *graph, cuda::Stream stream, void *const *tensors, void *workspace) const;
  /// "cuDNN 9.26.0"; empty before find().
  const std::string &version() const { return version_; }
  /// After the last use of a graph, before the context ends.
  void close();

private:
  struct Planned {
    ZtcCudnnGraph *graph = nullptr;
    uint64_t workspaceBytes = 0;
    std::string refusal; ///< of cuDNN; empty: there is a graph
  };
  Status open(const CudaLibraryPaths &paths, const Gpu &gpu);
  Planned plan(const ZtcCudnnAttention &shape) const;

  const CudaDriver &driver_;
  const ZtcCudnnFunctions *functions_ = nullptr;
  ZtcCudnn *cudnn_ = nullptr;
  std::string version_;
  std::string closed_;                     ///< why open() has failed
  std::map<std::string, Planned> planned_; ///< by the members of the shape
};

} // namespace ztc
