#include "runtime/Device/cuda/CudnnGraphs.h"
#include "runtime/Core/LoadModule.h"
#include "runtime/Core/Sizes.h"
#include <fmt/format.h>
#include <mutex>
#include <optional>

namespace ztc {
namespace {

/// Before it the frontend clears accumulators itself, by the CUDA runtime, which we do not ask for.
constexpr uint64_t kOldestCudnn = 90600;
/// The first whose deterministic gradient has, on Hopper, a workspace that is linear in the sequence.
constexpr uint64_t kLinearGradient = 92500;

std::string keyOf(const ZtcCudnnAttention &shape) {
  std::string key =
      fmt::format("{} {} {} {} {} {} {} {} {} {} {} {} {} {}", shape.type, shape.grad, shape.deterministic,
                  shape.linearWorkspace, shape.causal, shape.window, shape.batch, shape.seq, shape.heads, shape.kvHeads,
                  shape.headDim, shape.documents, shape.longest, shape.scale);
  for (const ZtcCudnnStrides &strides : shape.strides)
    key += fmt::format(" {} {} {}", strides.batch, strides.row, strides.head);
  return key;
}

} // namespace

std::string cudnnVersionText(uint64_t version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

std::string cudnnVersionObstacle(uint64_t version, const ZtcCudnnAttention &shape) {
  if (version < kOldestCudnn)
    return fmt::format("{} or later is needed", cudnnVersionText(kOldestCudnn));
  // As NVIDIA's frontend has it.
  if (shape.grad && (version == 91000 || version == 91001))
    return "its gradient has known errors";
  if (shape.window && version == 91400)
    return "its sliding windows have known errors";
  // Of others the frontend tells it the lengths, which it copies by the CUDA runtime.
  if (shape.grad && !shape.documents && shape.seq % 128 != 0 && version <= 91500)
    return "its gradient takes sequences of a multiple of 128 tokens alone";
  return {};
}

StatusOr<CudnnLibrary> loadCudnn(const CudaLibraryPaths &paths) {
  static std::mutex mutex;
  static std::optional<CudnnLibrary> loaded;
  std::lock_guard lock(mutex);
  if (loaded)
    return *loaded;
  CudnnLibrary opened;
  const auto candidates = moduleCandidates("libztc-cudnn.so", paths.cudnnModule, programFolder());
  auto table = openModuleTable(candidates, "ztcCudnnFunctions", ZTC_CUDNN_VERSION);
  if (!table.isOk() && table.status().code() == StatusCode::NotFound)
    return failedPrecondition("this build has no libztc-cudnn.so: it was made without the headers of CUDA and cuDNN");
  if (!table.isOk())
    return table.status();
  opened.functions = static_cast<const ZtcCudnnFunctions *>(*table);
  // By these names cuDNN asks the loader for what it compiles and multiplies with.
  openCompanions({"libnvrtc.so.13", "libnvrtc.so.12", "libcublasLt.so.13", "libcublasLt.so.12"}, paths);
  ZTC_ASSIGN_OR_RETURN(opened.library, openCudaLibrary(kCudnnName, paths.cudnn, paths));
  loaded = opened;
  return opened;
}

Status CudnnGraphs::open(const CudaLibraryPaths &paths, const Gpu &gpu) {
  if (!paths.useCudnn)
    return failedPrecondition("ZTC_CUDNN is 0");
  ZTC_ASSIGN_OR_RETURN(const CudnnLibrary cudnn, loadCudnn(paths));
  ZtcCudnnError error{};
  const ZtcCudnnGpu wanted{gpu.major * 10 + gpu.minor, nullptr};
  if (cudnn.functions->open(cudnn.library, driver_.library, &wanted, &cudnn_, &error))
    return failedPrecondition(fmt::format("cuDNN does not start: {}", error.message));
  functions_ = cudnn.functions;
  version_ = "cuDNN " + cudnnVersionText(functions_->libraryVersion(cudnn_));
  return Status::ok();
}

CudnnGraphs::Planned CudnnGraphs::plan(const ZtcCudnnAttention &shape) const {
  Planned planned;
  const std::string obstacle = cudnnVersionObstacle(functions_->libraryVersion(cudnn_), shape);
  ZtcCudnnError error{};
  if (!obstacle.empty()) {
    planned.refusal = fmt::format("{} is not used: {}", version_, obstacle);
  } else if (functions_->create(cudnn_, &shape, &planned.graph, &planned.workspaceBytes, &error)) {
    planned.refusal = fmt::format("{} refuses: {}", version_, error.message);
  }
  return planned;
}

StatusOr<ZtcCudnnGraph *> CudnnGraphs::find(const ZtcCudnnAttention &shape, uint64_t workspaceBytes,
                                            const CudaLibraryPaths &paths, const Gpu &gpu) {
  if (!functions_ && closed_.empty())
    if (Status opened = open(paths, gpu); !opened.isOk())
      closed_ = opened.message();
  if (!closed_.empty())
    return failedPrecondition(closed_);
  auto [found, isNew] = planned_.try_emplace(keyOf(shape));
  if (isNew)
    found->second = plan(shape);
  const Planned &planned = found->second;
  if (!planned.refusal.empty())
    return failedPrecondition(planned.refusal);
  if (planned.workspaceBytes > workspaceBytes)
    return failedPrecondition(fmt::format("{} wants {} of workspace here, the plan reserves {}", version_,
                                          formatSize(planned.workspaceBytes), formatSize(workspaceBytes)));
  return planned.graph;
}

bool CudnnGraphs::hasTwoGradients(const Gpu &gpu) const {
  return cudnn_ && gpu.major == 9 && functions_->libraryVersion(cudnn_) >= kLinearGradient;
}

uint64_t CudnnGraphs::workspaceOf(const ZtcCudnnAttention &shape) const {
  const auto found = planned_.find(keyOf(shape));
  return found == planned_.end() || !found->second.refusal.empty() ? 0 : found->second.workspaceBytes;
}

Status CudnnGraphs::execute(ZtcCudnnGraph *graph, cuda::Stream stream, void *const *tensors, void *workspace) const {
  ZtcCudnnError error{};
  if (functions_->execute(graph, stream, tensors, workspace, &error))
    return unavailable(
        fmt::format("{}: {}; with ZTC_CUDNN=0 attention is computed by own kernels", version_, error.message));
  return Status::ok();
}

void CudnnGraphs::close() {
  for (auto &[key, planned] : planned_)
    if (planned.graph)
      functions_->destroy(planned.graph);
  planned_.clear();
  if (cudnn_)
    functions_->close(cudnn_);
  cudnn_ = nullptr;
}

} // namespace ztc
