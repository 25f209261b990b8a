// What the steps of the CUDA device share, and the list of them. One kind of step is one file, Cuda*.cpp.
#pragma once
#include "runtime/Device/Device.h"
#include "runtime/Device/StepOperands.h"
#include "runtime/Device/cuda/CudaLibraries.h"
#include "runtime/Device/cuda/CudnnGraphs.h"
#include <array>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace ztc {

/// Streams of a plan, and one for transfers beside them.
enum CudaStreamIndex : uint32_t {
  kComputeStream = 0,
  kCommunicationStream = 1,
  kMoveStream = 2,
  kCopyStream = 3,
  kStreamCount = 4
};

/// A generated kernel on this GPU.
struct CudaKernel {
  cuda::Function function = nullptr;
  uint32_t blockThreads = 0;
  uint32_t unitsPerBlock = 1;
  bool waits = false; ///< may be launched while the kernel before it ends

  /// Blocks that so many units are launched over.
  uint64_t blocks(uint64_t units) const { return (units + unitsPerBlock - 1) / unitsPerBlock; }
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
  /// Why the driver compiled them; empty where it loaded the plan's machine code.
  const std::string &compiled() const { return compiled_; }

private:
  void unload();
  Status loadImage(const plan::Image &image, const Gpu &gpu, cuda::Module &module);
  const CudaDriver &driver_;
  std::vector<cuda::Module> modules_; ///< by the plan's image index; null: not loaded
  std::vector<CudaKernel> kernels_;   ///< by the plan's kernel index
  std::string target_, compiled_;
};

/// Bytes of the widest access; generated kernels take for granted that operands begin at multiples of it.
inline constexpr uint64_t kGpuVectorBytes = 16;

class TokenFault;
class CudaProductCall;
class CudaAttentionStep;
struct HostCores;

/// The first error of what threads of the driver have read and written for streams.
class TransferFault {
public:
  void note(Status status) {
    std::lock_guard lock(mutex_);
    if (status_.isOk())
      status_ = std::move(status);
  }
  Status status() const {
    std::lock_guard lock(mutex_);
    return status_;
  }

private:
  mutable std::mutex mutex_;
  Status status_;
};

/// The parts of the device that steps use; they live as long as the device.
struct CudaResources {
  const CudaDriver &driver;
  Gpu gpu;
  CudaLibraryPaths libraries;
  std::array<cuda::Stream, kStreamCount> streams{};
  std::vector<cuda::Event> events;     ///< by the plan's number; null: not used
  std::vector<uint64_t> eventPrograms; ///< by the plan's number: the execution of a program that recorded it last
  uint64_t program = 0;                ///< executions of programs so far
  CudaKernels kernels;
  bool hasMoves = false;                ///< some prepared step is a move
  std::shared_ptr<HostCores> hostCores; ///< where the plan computes on the host's memory
  bool tf32 = false;                    ///< the plan's: what products of f32 factors round them to
  /// Of the step that is being prepared: multiprocessors that its products may count on; 0: all.
  uint32_t productMultiprocessors = 0;
  const CublasLt *cublasLt = nullptr; ///< loaded by the first step that multiplies matrices
  cublaslt::Handle cublasLtHandle = nullptr;
  CudnnGraphs cudnn;
  bool overlapsLaunches = false;              ///< this GPU and driver take kernels that wait for one another
  bool deterministic = true;                  ///< whether attention's gradient has to have the same bits each time
  std::vector<CudaAttentionStep *> attention; ///< the prepared steps of it, in their order
  /// The matrix products of the prepared steps, by call signature.
  std::map<std::string, std::weak_ptr<CudaProductCall>> products;
  Communicator *communicator = nullptr; ///< of the collectives, to be asked for its errors
  std::vector<TokenFault *> faults;     ///< of the prepared steps
  TransferFault transferFault;          ///< once there is one the run is over
  ProgressBoard *board = nullptr;       ///< may be null
  const char *collective = nullptr;     ///< the name of the one that was given last; belongs to the plan

  CudaResources(const CudaDriver &driver, Gpu gpu, CudaLibraryPaths libraries)
      : driver(driver), gpu(std::move(gpu)), libraries(std::move(libraries)), kernels(driver), cudnn(driver) {}
  Status loadCublasLt();
};

/// A word of page-locked memory in which a kernel notes a token that is not a row of its table, or a place that is none
/// of the rows to be added. Such rows are left out, the kernel goes on, and the device returns the error where it waits
/// next.
class TokenFault {
public:
  enum class Kind { Token, Choice, Place };
  /// `choices`: of each row, where those are noted.
  TokenFault(CudaResources &resources, uint64_t rows, Kind kind = Kind::Token, uint64_t choices = 1);
  ~TokenFault();
  TokenFault(const TokenFault &) = delete;
  TokenFault &operator=(const TokenFault &) = delete;
  Status create();
  cuda::Address address() const { return reinterpret_cast<cuda::Address>(word_); }
  /// InvalidArgument where one was noted since the last call; what a kernel that still runs notes may be among it.
  Status take();

private:
  CudaResources &resources_;
  const uint64_t rows_, choices_;
  const Kind kind_;
  uint64_t *word_ = nullptr; ///< (position + 1) * 2^32 + the token; 0: none
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

  /// The kernels that the plan names for a library call. Fails where it names none, or not `count`.
  StatusOr<std::vector<CudaKernel>> gpuKernels(const google::protobuf::RepeatedField<uint32_t> &indices,
                                               size_t count) const;
  /// Fails unless all operands begin at multiples of kGpuVectorBytes.
  Status requireAligned() const;
  /// Enqueues a kernel over `extent` units, if there are any. `words`: addresses and scalars.
  Status launch(const CudaKernel &kernel, std::initializer_list<uint64_t> words, uint64_t extent) const;
  /// The same with all parameters, the extent last.
  Status launch(const CudaKernel &kernel, const uint64_t *parameters, size_t count) const;

  CudaResources &resources_;
  const cuda::Stream stream_;
  StepOperands operands_;
};

/// Who computes a step of attention. By cuDNN a deterministic gradient may have two ways, which differ in what they
/// keep in memory: ZtcCudnnAttention::linearWorkspace.
enum class AttentionWay { CudnnScores, Cudnn, OwnKernels };

/// A prepared step of attention.
class CudaAttentionStep : public CudaStep {
public:
  ~CudaAttentionStep() override;
  /// The call's: equal in steps that differ in their operands alone.
  virtual std::string signature() const = 0;
  virtual bool isGradient() const = 0;
  /// Those that there are: the one that is taken without a measurement comes first, own kernels, which always can,
  /// last.
  virtual std::vector<AttentionWay> ways() const = 0;
  virtual AttentionWay way() const = 0;
  /// Takes one of ways(). Own kernels: `why`.
  virtual void take(AttentionWay way, const std::string &why) = 0;
  /// Who computes it and, of own kernels, why.
  virtual std::string text() const = 0;
  /// Puts what execute() must not find anything in the place of into the operands, which are where initialize() was
  /// told.
  virtual Status prepareTrial() = 0;

protected:
  explicit CudaAttentionStep(const CudaPrepare &from);
};

using PreparedStep = StatusOr<std::unique_ptr<DeviceStep>>;
// One function for each kind of step: prepareCudaGemm and so on.
#define ZTC_STEP(name) PreparedStep prepareCuda##name(const CudaPrepare &from);
#include "runtime/Format/Steps/StepKinds.def"
/// A launch on the host's cores: see computesOnHost().
PreparedStep prepareCudaHostLaunch(const CudaPrepare &from);

} // namespace ztc
