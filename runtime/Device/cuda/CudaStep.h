// What the steps of the CUDA device share, and the list of them. One kind of step is one file, Cuda*.cpp.
#pragma once
#include "runtime/Device/Device.h"
#include "runtime/Device/StepOperands.h"
#include "runtime/Device/cuda/CudaLibraries.h"
#include <array>
#include <memory>
#include <string>
#include <vector>

namespace ztc {

/// Streams of a plan, and one for transfers beside them.
enum CudaStreamIndex : uint32_t { kComputeStream = 0, kCommunicationStream = 1, kCopyStream = 2, kStreamCount = 3 };

/// A generated kernel on this GPU.
struct CudaKernel {
  cuda::Function function = nullptr;
  uint32_t blockThreads = 0;
  uint32_t unitsPerBlock = 1;
};

/// The plan's kernels for this GPU.
class CudaKernels {
public:
  explicit CudaKernels(const CudaDriver &driver) : driver_(driver) {}
  ~CudaKernels();
  CudaKernels(const CudaKernels &) = delete;
  CudaKernels &operator=(const CudaKernels &) = delete;
  /// Chooses the architecture that all kernels have and the GPU runs. Fails (FailedPrecondition) with both otherwise.
  Status load(const plan::Plan &plan, const Gpu &gpu);
  /// A kernel by its index in the plan.
  StatusOr<CudaKernel> find(uint32_t kernel) const;
  const std::string &target() const { return target_; }

private:
  void unload();
  const CudaDriver &driver_;
  std::vector<cuda::Module> modules_; ///< by the plan's image index; null: not loaded
  std::vector<CudaKernel> kernels_;   ///< by the plan's kernel index
  std::string target_;
};

/// The parts of the device that steps use; they live as long as the device.
struct CudaResources {
  const CudaDriver &driver;
  Gpu gpu;
  CudaLibraryPaths libraries;
  std::array<cuda::Stream, kStreamCount> streams{};
  std::vector<cuda::Event> events; ///< by the plan's number; null: not used
  CudaKernels kernels;
  const CublasLt *cublasLt = nullptr; ///< loaded by the first step that multiplies matrices
  cublaslt::Handle cublasLtHandle = nullptr;
  Communicator *communicator = nullptr; ///< of the collectives, to be asked for its errors

  CudaResources(const CudaDriver &driver, Gpu gpu, CudaLibraryPaths libraries)
      : driver(driver), gpu(std::move(gpu)), libraries(std::move(libraries)), kernels(driver) {}
  Status loadCublasLt();
};

/// What a step kind's prepare function gets.
struct CudaPrepare {
  const plan::Step &step;
  const PrepareContext &context;
  CudaResources &resources;
  cuda::Stream stream() const { return resources.streams[step.stream()]; }
};

/// A step over operands in the arena, on one stream.
class CudaStep : public DeviceStep {
public:
  Status initialize(std::byte *arena) override {
    operands_.place(arena);
    return Status::ok();
  }

protected:
  explicit CudaStep(const CudaPrepare &from) : resources_(from.resources), stream_(from.stream()) {}
  const CudaDriver &driver() const { return resources_.driver; }
  cuda::Address address(size_t index) const { return reinterpret_cast<cuda::Address>(operands_.address(index)); }

  CudaResources &resources_;
  const cuda::Stream stream_;
  StepOperands operands_;
};

using PreparedStep = StatusOr<std::unique_ptr<DeviceStep>>;
PreparedStep prepareCudaLaunch(const CudaPrepare &from);
PreparedStep prepareCudaGemm(const CudaPrepare &from);
PreparedStep prepareCudaCopy(const CudaPrepare &from);
PreparedStep prepareCudaFill(const CudaPrepare &from);
PreparedStep prepareCudaCollective(const CudaPrepare &from);
PreparedStep prepareCudaEvent(const CudaPrepare &from);
/// Planned-only transfers.
PreparedStep prepareCudaNothing(const CudaPrepare &from);

} // namespace ztc
