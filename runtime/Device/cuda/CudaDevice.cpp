#include "runtime/Device/cuda/CudaDevice.h"
#include "runtime/Device/cuda/CudaStep.h"
#include <algorithm>
#include <cstring>
#include <fmt/format.h>

namespace ztc {
namespace {

/// Which function prepares which kind of step.
struct StepKind {
  plan::Step::KindCase kind;
  PreparedStep (*prepare)(const CudaPrepare &);
};
constexpr std::array kStepKinds = {
    StepKind{plan::Step::kLaunch, prepareCudaLaunch},
    StepKind{plan::Step::kGemm, prepareCudaGemm},
    StepKind{plan::Step::kLinearCrossEntropy, prepareCudaLinearCrossEntropy},
    StepKind{plan::Step::kGather, prepareCudaGather},
    StepKind{plan::Step::kScatterAdd, prepareCudaScatterAdd},
    StepKind{plan::Step::kNarrow, prepareCudaNarrow},
    StepKind{plan::Step::kCopy, prepareCudaCopy},
    StepKind{plan::Step::kFill, prepareCudaFill},
    StepKind{plan::Step::kCollective, prepareCudaCollective},
    StepKind{plan::Step::kRecord, prepareCudaEvent},
    StepKind{plan::Step::kWait, prepareCudaEvent},
    StepKind{plan::Step::kTransfer, prepareCudaNothing},
};

/// The one allocation on the GPU.
class CudaArena : public Arena {
public:
  CudaArena(const CudaDriver &driver, cuda::Address address, uint64_t bytes) : driver_(driver), address_(address) {
    base_ = reinterpret_cast<std::byte *>(address);
    bytes_ = bytes;
  }
  ~CudaArena() override { driver_.cuMemFree_v2(address_); }

private:
  const CudaDriver &driver_;
  const cuda::Address address_;
};

/// What every step is wrapped in while errors are searched: waits behind it.
class SynchronousStep : public DeviceStep {
public:
  SynchronousStep(std::unique_ptr<DeviceStep> step, const CudaPrepare &from)
      : step_(std::move(step)), driver_(from.resources.driver), stream_(from.stream()) {}
  Status initialize(std::byte *arena) override { return step_->initialize(arena); }
  Status execute(uint32_t microstep) override {
    ZTC_RETURN_IF_ERROR(step_->execute(microstep));
    return driver_.check(driver_.cuStreamSynchronize(stream_), "cuStreamSynchronize");
  }

private:
  std::unique_ptr<DeviceStep> step_;
  const CudaDriver &driver_;
  const cuda::Stream stream_;
};

/// Page-locked memory through which everything between the host and the arena goes: pieces in turn, so that the next is
/// filled while the one before is on its way, and the caller's memory is free when a call returns.
class PinnedStaging {
public:
  static constexpr uint64_t kPieceBytes = uint64_t(4) << 20;
  static constexpr uint32_t kPieces = 2;

  explicit PinnedStaging(const CudaDriver &driver) : driver_(driver) {}
  ~PinnedStaging() {
    for (cuda::Event event : events_)
      if (event)
        driver_.cuEventDestroy_v2(event);
    if (memory_)
      driver_.cuMemFreeHost(memory_);
  }
  PinnedStaging(const PinnedStaging &) = delete;
  PinnedStaging &operator=(const PinnedStaging &) = delete;

  Status create() {
    ZTC_RETURN_IF_ERROR(driver_.check(driver_.cuMemHostAlloc(&memory_, kPieces * kPieceBytes, 0), "cuMemHostAlloc"));
    for (cuda::Event &event : events_)
      ZTC_RETURN_IF_ERROR(driver_.check(driver_.cuEventCreate(&event, cuda::kEventDisableTiming), "cuEventCreate"));
    return Status::ok();
  }

  /// Comes behind everything that `stream` was given, and the host goes on.
  Status upload(cuda::Address to, const void *from, uint64_t bytes, cuda::Stream stream) {
    for (uint64_t at = 0; at < bytes; at += kPieceBytes) {
      const uint64_t piece = std::min(kPieceBytes, bytes - at);
      void *buffer = nullptr;
      ZTC_RETURN_IF_ERROR(nextPiece(buffer));
      std::memcpy(buffer, static_cast<const std::byte *>(from) + at, piece);
      ZTC_RETURN_IF_ERROR(
          driver_.check(driver_.cuMemcpyHtoDAsync_v2(to + at, buffer, piece, stream), "cuMemcpyHtoDAsync"));
      ZTC_RETURN_IF_ERROR(driver_.check(driver_.cuEventRecord(events_[turn_], stream), "cuEventRecord"));
      turn_ = (turn_ + 1) % kPieces;
    }
    return Status::ok();
  }

  /// Waits for everything that `stream` was given.
  Status download(void *to, cuda::Address from, uint64_t bytes, cuda::Stream stream) {
    struct {
      uint32_t turn = 0;
      uint64_t at = 0, bytes = 0;
    } flying; // one piece is on its way while the one before is copied out
    const auto land = [&] {
      if (flying.bytes == 0)
        return Status::ok();
      ZTC_RETURN_IF_ERROR(driver_.check(driver_.cuEventSynchronize(events_[flying.turn]), "cuEventSynchronize"));
      std::memcpy(static_cast<std::byte *>(to) + flying.at, piece(flying.turn), flying.bytes);
      return Status::ok();
    };
    for (uint64_t at = 0; at < bytes; at += kPieceBytes) {
      const uint64_t count = std::min(kPieceBytes, bytes - at);
      void *buffer = nullptr;
      ZTC_RETURN_IF_ERROR(nextPiece(buffer));
      ZTC_RETURN_IF_ERROR(
          driver_.check(driver_.cuMemcpyDtoHAsync_v2(buffer, from + at, count, stream), "cuMemcpyDtoHAsync"));
      ZTC_RETURN_IF_ERROR(driver_.check(driver_.cuEventRecord(events_[turn_], stream), "cuEventRecord"));
      ZTC_RETURN_IF_ERROR(land());
      flying = {turn_, at, count};
      turn_ = (turn_ + 1) % kPieces;
    }
    return land();
  }

private:
  std::byte *piece(uint32_t turn) const { return static_cast<std::byte *>(memory_) + turn * kPieceBytes; }
  /// Waits until the piece whose turn it is has been used.
  Status nextPiece(void *&buffer) {
    buffer = piece(turn_);
    return driver_.check(driver_.cuEventSynchronize(events_[turn_]), "cuEventSynchronize");
  }

  const CudaDriver &driver_;
  void *memory_ = nullptr;
  cuda::Event events_[kPieces] = {}; ///< a piece's last use
  uint32_t turn_ = 0;
};

class CudaDevice : public Device {
public:
  CudaDevice(CudaDeviceOptions options, const CudaDriver &driver, Gpu gpu)
      : options_(std::move(options)), driver_(driver), resources_(driver, std::move(gpu), options_.libraries),
        staging_(driver) {}

  ~CudaDevice() override {
    for (cuda::Stream stream : resources_.streams)
      if (stream)
        driver_.cuStreamSynchronize(stream);
    if (resources_.cublasLtHandle)
      resources_.cublasLt->cublasLtDestroy(resources_.cublasLtHandle);
    for (cuda::Event event : resources_.events)
      if (event)
        driver_.cuEventDestroy_v2(event);
    if (joined_)
      driver_.cuEventDestroy_v2(joined_);
    for (cuda::Stream stream : resources_.streams)
      if (stream)
        driver_.cuStreamDestroy_v2(stream);
    // The context stays: libraries and the kernels' modules are still in it, and it ends with the process.
  }

  Status create() {
    cuda::Context context = nullptr;
    ZTC_RETURN_IF_ERROR(
        driver_.check(driver_.cuDevicePrimaryCtxRetain(&context, resources_.gpu.index), "cuDevicePrimaryCtxRetain"));
    ZTC_RETURN_IF_ERROR(driver_.check(driver_.cuCtxSetCurrent(context), "cuCtxSetCurrent"));
    for (uint32_t i = 0; i < kStreamCount; ++i) {
      // Communication first wherever both could go on: somebody waits for it on every rank.
      const int priority = i == kCommunicationStream ? -1 : 0;
      ZTC_RETURN_IF_ERROR(
          driver_.check(driver_.cuStreamCreateWithPriority(&resources_.streams[i], cuda::kStreamNonBlocking, priority),
                        "cuStreamCreate"));
    }
    ZTC_RETURN_IF_ERROR(driver_.check(driver_.cuEventCreate(&joined_, cuda::kEventDisableTiming), "cuEventCreate"));
    return staging_.create();
  }

  std::string name() const override { return "cuda"; }

  std::string description() const override {
    std::string text =
        fmt::format("{}{}, {}, CUDA {}", driver_.isStandIn ? "STAND-IN FOR A GPU: " : "", resources_.gpu.name,
                    resources_.gpu.architecture(), cudaVersionText(driver_.version));
    if (!resources_.kernels.target().empty())
      text += ", kernels for " + resources_.kernels.target();
    if (resources_.cublasLt)
      text += ", " + resources_.cublasLt->version;
    return text;
  }

  uint32_t threads() const override { return 0; }

  StatusOr<std::unique_ptr<Arena>> allocateArena(uint64_t bytes) override {
    const uint64_t allocated = std::max<uint64_t>(bytes, 1);
    cuda::Address address = 0;
    if (Status status = driver_.check(driver_.cuMemAlloc_v2(&address, allocated), "cuMemAlloc"); !status.isOk())
      return status.withContext(fmt::format("the arena of {} bytes on {}", bytes, resources_.gpu.name));
    auto arena = std::make_unique<CudaArena>(driver_, address, bytes);
    ZTC_RETURN_IF_ERROR(
        driver_.check(driver_.cuMemsetD8Async(address, 0, allocated, stream(kComputeStream)), "cuMemsetD8Async"));
    ZTC_RETURN_IF_ERROR(synchronize());
    return std::unique_ptr<Arena>(std::move(arena));
  }

  Status loadKernels(const plan::Plan &plan) override { return resources_.kernels.load(plan, resources_.gpu); }

  StatusOr<std::unique_ptr<DeviceStep>> prepareStep(const plan::Step &step, const PrepareContext &context) override {
    if (context.shape.threads != 0)
      return internalError(fmt::format("memory was planned for a host with {} threads", context.shape.threads));
    if (step.stream() > kCommunicationStream)
      return dataLoss(fmt::format("the step is on stream {}: there are 0 and 1", step.stream()));
    const CudaPrepare from{step, context, resources_};
    for (const StepKind &kind : kStepKinds) {
      if (kind.kind != step.kind_case())
        continue;
      auto prepared = kind.prepare(from);
      if (!prepared.isOk() || !options_.synchronous)
        return prepared;
      return std::unique_ptr<DeviceStep>(std::make_unique<SynchronousStep>(std::move(*prepared), from));
    }
    if (step.kind_case() == plan::Step::KIND_NOT_SET)
      return dataLoss("the step is of no known kind");
    return failedPrecondition("steps of this kind do not run on a GPU yet: give --device=cpu");
  }

  Status upload(std::byte *to, const void *from, uint64_t bytes) override {
    return staging_.upload(reinterpret_cast<cuda::Address>(to), from, bytes, stream(kComputeStream));
  }
  Status download(void *to, const std::byte *from, uint64_t bytes) override {
    ZTC_RETURN_IF_ERROR(
        explain(staging_.download(to, reinterpret_cast<cuda::Address>(from), bytes, stream(kComputeStream))));
    return takeFaults();
  }

  Status synchronize() override {
    for (cuda::Stream stream : resources_.streams)
      ZTC_RETURN_IF_ERROR(explain(driver_.check(driver_.cuStreamSynchronize(stream), "cuStreamSynchronize")));
    ZTC_RETURN_IF_ERROR(takeFaults());
    return resources_.communicator ? resources_.communicator->status() : Status::ok();
  }

  Status finishProgram() override {
    ZTC_RETURN_IF_ERROR(driver_.check(driver_.cuEventRecord(joined_, stream(kCommunicationStream)), "cuEventRecord"));
    ZTC_RETURN_IF_ERROR(
        driver_.check(driver_.cuStreamWaitEvent(stream(kComputeStream), joined_, 0), "cuStreamWaitEvent"));
    return resources_.communicator ? resources_.communicator->status() : Status::ok();
  }

  void abandon(const std::string &reason) override {
    if (resources_.communicator)
      resources_.communicator->abort(reason);
    for (cuda::Stream stream : resources_.streams)
      driver_.cuStreamSynchronize(stream); // the error that led here is the one that counts
  }

  StatusOr<uint64_t> freeBytes() const override {
    size_t freeNow = 0, total = 0;
    ZTC_RETURN_IF_ERROR(driver_.check(driver_.cuMemGetInfo_v2(&freeNow, &total), "cuMemGetInfo"));
    return uint64_t(freeNow);
  }
  std::string memoryName() const override { return "GPU " + resources_.gpu.busId; }
  uint64_t libraryBytes() const override { return 0; }
  StatusOr<DeviceLimits> measureLimits() override { return DeviceLimits{}; }
  void setTrace(TraceRecorder *) override {}

private:
  cuda::Stream stream(CudaStreamIndex index) const { return resources_.streams[index]; }

  /// What kernels have noted, once the streams have been waited for.
  Status takeFaults() {
    for (TokenFault *fault : resources_.faults)
      ZTC_RETURN_IF_ERROR(fault->take());
    return Status::ok();
  }

  /// A communicator's own words are better than those of the stream that its failure ended. And what a stream reports
  /// happened some time before.
  Status explain(Status status) const {
    if (resources_.communicator)
      if (Status communicated = resources_.communicator->status(); !communicated.isOk())
        return communicated;
    if (status.isOk() || options_.synchronous)
      return status;
    return Status(status.code(), status.message() + ": a step of some time ago failed; ZTC_CUDA_SYNC=1 names it");
  }

  const CudaDeviceOptions options_;
  const CudaDriver &driver_;
  CudaResources resources_;
  PinnedStaging staging_;
  cuda::Event joined_ = nullptr; ///< the communication stream's end of a program
};

} // namespace

StatusOr<std::vector<Gpu>> findGpus(const CudaLibraryPaths &libraries) {
  ZTC_ASSIGN_OR_RETURN(const CudaDriver *driver, CudaDriver::load(libraries));
  return listGpus(*driver);
}

StatusOr<std::unique_ptr<Device>> createCudaDevice(CudaDeviceOptions options) {
  ZTC_ASSIGN_OR_RETURN(const CudaDriver *driver, CudaDriver::load(options.libraries));
  ZTC_ASSIGN_OR_RETURN(const std::vector<Gpu> gpus, listGpus(*driver));
  const Gpu &gpu = gpus[options.localRank % gpus.size()];
  auto device = std::make_unique<CudaDevice>(std::move(options), *driver, gpu);
  ZTC_RETURN_IF_ERROR(device->create());
  return StatusOr<std::unique_ptr<Device>>(std::move(device));
}

} // namespace ztc
