#include "runtime/Device/cuda/CudaDevice.h"
#include "runtime/Device/cuda/CudaArena.h"
#include "runtime/Device/cuda/CudaGraph.h"
#include "runtime/Device/cuda/CudaHostLaunch.h"
#include "runtime/Device/cuda/CudaLimits.h"
#include "runtime/Device/cuda/CudaMonitor.h"
#include "runtime/Device/cuda/CudaPinnedSpace.h"
#include "runtime/Device/cuda/CudaStaging.h"
#include "runtime/Device/cuda/CudaTimer.h"
#include "runtime/Device/cuda/CudaTuning.h"
#include "runtime/Device/cuda/CudaWarm.h"
#include "runtime/Format/DeviceReserve.h"
#include "runtime/Format/HostLaunch.h"
#include "runtime/Format/PlanValidator.h"
#include <algorithm>
#include <fmt/format.h>

namespace ztc {
namespace {

PreparedStep prepareKind(const CudaPrepare &from) {
  switch (from.step.kind_case()) {
#define ZTC_STEP(name)                                                                                                 \
  case plan::Step::k##name:                                                                                            \
    return prepareCuda##name(from);
#include "runtime/Format/Steps/StepKinds.def"
  case plan::Step::KIND_NOT_SET:
    break;
  }
  return dataLoss("the step is of no known kind");
}

/// What every step is wrapped in while errors are searched: waits after it.
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

/// Events after the programs that the streams were given: a wait goes from one to the next, so that others see that
/// this rank moves, and where: the board shows the program that is waited for, not the one that was given last. The
/// host is never more than kMost programs ahead.
class CudaProgramEnds : public ProgramEnds {
public:
  static constexpr uint64_t kMost = 64;

  explicit CudaProgramEnds(const CudaResources &resources) : resources_(resources) {}
  ~CudaProgramEnds() override {
    for (cuda::Event event : events_)
      if (event)
        resources_.driver.cuEventDestroy_v2(event);
  }

  Status create() {
    const CudaDriver &driver = resources_.driver;
    for (cuda::Event &event : events_)
      ZTC_RETURN_IF_ERROR(driver.check(driver.cuEventCreate(&event, cuda::kEventDisableTiming), "cuEventCreate"));
    return Status::ok();
  }

  Status mark() override {
    const CudaDriver &driver = resources_.driver;
    if (marked_ - seen_ == kMost)
      ZTC_RETURN_IF_ERROR(see());
    if (resources_.board) {
      ProgressBoard::Place place = resources_.board->place();
      places_[marked_ % kMost] = place;
      place.inCollective = false; // the next program's are its own
      resources_.board->show(place);
    }
    return driver.check(driver.cuEventRecord(events_[marked_++ % kMost], resources_.streams[kComputeStream]),
                        "cuEventRecord");
  }

  /// How many were given so far.
  uint64_t marked() const { return marked_; }
  /// Waits for the first `count` of all.
  Status waitFor(uint64_t count) {
    while (seen_ < count)
      ZTC_RETURN_IF_ERROR(see());
    return Status::ok();
  }
  Status waitForAll() { return waitFor(marked_); }

private:
  Status see() {
    const CudaDriver &driver = resources_.driver;
    const uint64_t index = seen_++ % kMost;
    ProgressBoard *const board = resources_.board;
    const ProgressBoard::Place now = board ? board->place() : ProgressBoard::Place();
    if (board)
      board->show(places_[index]);
    ZTC_RETURN_IF_ERROR(driver.check(driver.cuEventSynchronize(events_[index]), "cuEventSynchronize"));
    if (board) {
      board->show(now);
      board->addWork();
    }
    return Status::ok();
  }

  const CudaResources &resources_;
  std::array<cuda::Event, kMost> events_{};
  std::array<ProgressBoard::Place, kMost> places_{};
  uint64_t marked_ = 0, seen_ = 0;
};

class CudaDevice;

/// Values on their way to page-locked memory, on the compute stream.
class CudaReadBack : public ReadBack {
public:
  static constexpr uint64_t kMostBytes = 4096;

  CudaReadBack(CudaDevice &device, const CudaDriver &driver, cuda::Stream stream)
      : device_(device), driver_(driver), stream_(stream) {}
  ~CudaReadBack() override {
    if (event_) {
      driver_.cuEventSynchronize(event_); // the memory may still be written
      driver_.cuEventDestroy_v2(event_);
    }
    if (memory_)
      driver_.cuMemFreeHost(memory_);
  }
  Status create(uint64_t bytes) {
    if (bytes > kMostBytes)
      return internalError(fmt::format("{} bytes are read back, at most {}", bytes, kMostBytes));
    void *memory = nullptr;
    ZTC_RETURN_IF_ERROR(driver_.check(driver_.cuMemHostAlloc(&memory, bytes, 0), "cuMemHostAlloc"));
    memory_ = static_cast<std::byte *>(memory);
    return driver_.check(driver_.cuEventCreate(&event_, cuda::kEventDisableTiming), "cuEventCreate");
  }
  Status enqueue(uint64_t to, const std::byte *from, uint64_t bytes) override;
  StatusOr<const std::byte *> wait() override;

private:
  CudaDevice &device_;
  const CudaDriver &driver_;
  const cuda::Stream stream_;
  std::byte *memory_ = nullptr;
  cuda::Event event_ = nullptr;
  uint64_t programs_ = 0; ///< that were given before
};

/// Downloads on the copy stream, by a staging of its own.
class CudaReader : public ArenaReader {
public:
  CudaReader(const CudaDriver &driver, cuda::Context context) : driver_(driver), context_(context), staging_(driver) {}
  Status create(cuda::Stream stream) { return staging_.create(stream); }
  Status read(void *to, const std::byte *from, uint64_t bytes) override {
    // A thread begins without a context.
    ZTC_RETURN_IF_ERROR(driver_.check(driver_.cuCtxSetCurrent(context_), "cuCtxSetCurrent"));
    return staging_.download(to, reinterpret_cast<cuda::Address>(from), bytes);
  }

private:
  const CudaDriver &driver_;
  const cuda::Context context_;
  PinnedStaging staging_;
};

class CudaDevice : public Device,
                   public DeviceMemory,
                   public DeviceGauges,
                   public AlgorithmTuner,
                   public ProgramRecorder {
public:
  CudaDevice(CudaDeviceOptions options, const CudaDriver &driver, Gpu gpu)
      : options_(std::move(options)), driver_(driver), resources_(driver, std::move(gpu), options_.libraries),
        staging_(driver), recorder_(resources_), ends_(resources_), timer_(driver) {
    resources_.deterministic = options_.deterministic;
    // Hopper's griddepcontrol; a graph remembers it since CUDA 12.3.
    resources_.overlapsLaunches =
        options_.libraries.overlapsLaunches && resources_.gpu.major >= 9 && driver_.version >= 12030;
  }

  ~CudaDevice() override {
    waitForStreams();
    resources_.cudnn.close();
    if (resources_.cublasLtHandle)
      resources_.cublasLt->cublasLtDestroy(resources_.cublasLtHandle);
    for (cuda::Event event : resources_.events)
      if (event)
        driver_.cuEventDestroy_v2(event);
    for (cuda::Event event : {forked_, joined_})
      if (event)
        driver_.cuEventDestroy_v2(event);
    for (cuda::Stream stream : resources_.streams)
      if (stream)
        driver_.cuStreamDestroy_v2(stream);
    // The context stays: libraries and the kernels' modules are still in it, and it ends with the process.
  }

  Status create() {
    monitor_.open(options_.libraries, resources_.gpu);
    usedBefore_ = monitor_.usedBytes();
    int kilohertz = 0; // gone from later drivers
    if (driver_.cuDeviceGetAttribute(&kilohertz, cuda::kClockKilohertz, resources_.gpu.index) == cuda::kSuccess)
      clockHertz_ = 1000.0 * kilohertz;
    ZTC_RETURN_IF_ERROR(
        driver_.check(driver_.cuDevicePrimaryCtxRetain(&context_, resources_.gpu.index), "cuDevicePrimaryCtxRetain"));
    ZTC_RETURN_IF_ERROR(driver_.check(driver_.cuCtxSetCurrent(context_), "cuCtxSetCurrent"));
    for (uint32_t i = 0; i < kStreamCount; ++i) {
      // Communication first wherever both could go on: somebody waits for it on every rank.
      const int priority = i == kCommunicationStream ? -1 : 0;
      ZTC_RETURN_IF_ERROR(
          driver_.check(driver_.cuStreamCreateWithPriority(&resources_.streams[i], cuda::kStreamNonBlocking, priority),
                        "cuStreamCreate"));
    }
    for (cuda::Event *event : {&forked_, &joined_})
      ZTC_RETURN_IF_ERROR(driver_.check(driver_.cuEventCreate(event, cuda::kEventDisableTiming), "cuEventCreate"));
    ZTC_RETURN_IF_ERROR(ends_.create());
    return staging_.create(stream(kComputeStream));
  }

  std::string name() const override { return "cuda"; }

  std::string description() const override {
    std::string text =
        fmt::format("{}{}, {}, CUDA {}", resources_.gpu.isEmulated() ? "STAND-IN FOR A GPU: " : "", resources_.gpu.name,
                    resources_.gpu.architecture(), cudaVersionText(driver_.version));
    if (!resources_.kernels.target().empty())
      text += ", kernels for " + resources_.kernels.target();
    if (resources_.hostCores)
      text += fmt::format(", updates in the host's memory by {} of its threads ({})",
                          resources_.hostCores->pool.threads(), resources_.hostCores->kernels.target());
    if (!resources_.kernels.compiled().empty())
      text += " (" + resources_.kernels.compiled() + ")";
    if (resources_.cublasLt)
      text += ", " + resources_.cublasLt->version;
    if (const std::string attention = attentionText(); !attention.empty())
      text += ", " + attention;
    return text;
  }

  DeviceWays ways() const override {
    std::string compared;
    for (const CudaAttentionStep *step : resources_.attention)
      compared += (step->way() == AttentionWay::OwnKernels ? "own" : step->text()) + ";";
    return {compared, attentionText()};
  }

  uint32_t threads() const override { return 0; }
  DeviceMemory &memory() override { return *this; }
  const DeviceMemory &memory() const override { return *this; }
  DeviceGauges &gauges() override { return *this; }
  const DeviceGauges &gauges() const override { return *this; }
  AlgorithmTuner *tuner() override { return this; }
  // Where errors or times of single steps are wanted, they are executed one by one.
  ProgramRecorder *recorder() override {
    return options_.graphs && !options_.synchronous && !options_.timed ? this : nullptr;
  }

  StatusOr<std::unique_ptr<Arena>> allocateArena(uint64_t bytes) override {
    auto made = allocateCudaArena(driver_, resources_.gpu, bytes, [this] { waitForStreams(); });
    if (!made.isOk())
      return made.status().withContext(fmt::format("the arena of {} bytes on {}", bytes, resources_.gpu.name));
    arenaBytes_ = cudaArenaBytes(driver_, resources_.gpu, bytes);
    if (bytes)
      ZTC_RETURN_IF_ERROR(driver_.check(
          driver_.cuMemsetD8Async(reinterpret_cast<cuda::Address>((*made)->base()), 0, bytes, stream(kComputeStream)),
          "cuMemsetD8Async"));
    ZTC_RETURN_IF_ERROR(synchronize());
    return made;
  }

  StatusOr<std::unique_ptr<Arena>> allocateHostSpace(uint64_t bytes) override {
    return allocatePinnedSpace(driver_, bytes, [this] { waitForStreams(); });
  }

  Status loadKernels(const plan::Plan &plan) override {
    productType_ = productType(plan);
    resources_.tf32 = plan.tf32();
    if (computesOnHost(plan)) {
      ZTC_ASSIGN_OR_RETURN(resources_.hostCores, HostCores::create(plan, options_.hostThreads));
    }
    return resources_.kernels.load(plan, resources_.gpu);
  }

  StatusOr<std::unique_ptr<DeviceStep>> prepareStep(const plan::Step &step, const PrepareContext &context) override {
    if (context.shape.threads != 0)
      return internalError(fmt::format("memory was planned for a host with {} threads", context.shape.threads));
    if (step.stream() > kMoveStream)
      return dataLoss(fmt::format("the step is on stream {}: there are 0, 1 and 2", step.stream()));
    const CudaPrepare from{step, context, resources_};
    resources_.board = context.board;
    resources_.productMultiprocessors = productMultiprocessors(context);
    PreparedStep prepared = prepareKind(from);
    if (!prepared.isOk())
      return prepared;
    if (options_.timed)
      return std::unique_ptr<DeviceStep>(std::make_unique<TimedStep>(std::move(*prepared), from, timer_));
    if (!options_.synchronous)
      return prepared;
    return std::unique_ptr<DeviceStep>(std::make_unique<SynchronousStep>(std::move(*prepared), from));
  }

  /// Products of a micro-step run beside collectives, on several ranks. Which of them do depends on the ZeRO stage, and
  /// on how many multiprocessors an algorithm counts its bits may depend: so all of them get the same number, at every
  /// stage.
  uint32_t productMultiprocessors(const PrepareContext &context) const {
    const uint32_t busy = context.communicator ? context.communicator->multiprocessors() : 0;
    if (context.program != "microstep" || !busy || busy >= uint32_t(std::max(0, resources_.gpu.multiprocessors)))
      return 0;
    return uint32_t(resources_.gpu.multiprocessors) - busy;
  }

  std::string algorithmKey() const override { return cudaAlgorithmKey(resources_); }
  StatusOr<TunedAlgorithms> tuneAlgorithms(const Arena &arena, const TuningRequest &request) override {
    ZTC_ASSIGN_OR_RETURN(TunedAlgorithms tuned, tuneCudaCalls(resources_, arena, request));
    ZTC_RETURN_IF_ERROR(synchronize());
    return tuned;
  }
  Status useAlgorithms(const AlgorithmChoices &choices) override { return useCudaAlgorithms(resources_, choices); }

  Status upload(std::byte *to, const void *from, uint64_t bytes) override {
    return staging_.upload(reinterpret_cast<cuda::Address>(to), from, bytes);
  }
  Status download(void *to, const std::byte *from, uint64_t bytes) override {
    ZTC_RETURN_IF_ERROR(explain(ends_.waitForAll()));
    ZTC_RETURN_IF_ERROR(explain(staging_.download(to, reinterpret_cast<cuda::Address>(from), bytes)));
    return takeFaults();
  }

  StatusOr<std::unique_ptr<ReadBack>> createReadBack(uint64_t bytes) override {
    auto made = std::make_unique<CudaReadBack>(*this, driver_, stream(kComputeStream));
    ZTC_RETURN_IF_ERROR(made->create(bytes));
    return std::unique_ptr<ReadBack>(std::move(made));
  }
  StatusOr<std::unique_ptr<ArenaReader>> createReader() override {
    auto made = std::make_unique<CudaReader>(driver_, context_);
    ZTC_RETURN_IF_ERROR(made->create(stream(kCopyStream)));
    return std::unique_ptr<ArenaReader>(std::move(made));
  }
  bool isAsynchronous() const override { return !options_.synchronous && !options_.timed; }

  Status synchronize() override {
    ZTC_RETURN_IF_ERROR(explain(ends_.waitForAll()));
    for (cuda::Stream stream : resources_.streams)
      ZTC_RETURN_IF_ERROR(explain(driver_.check(driver_.cuStreamSynchronize(stream), "cuStreamSynchronize")));
    ZTC_RETURN_IF_ERROR(takeFaults());
    return resources_.communicator ? resources_.communicator->status() : Status::ok();
  }

  Status beginProgram(bool severalStreams) override {
    ++resources_.program;
    if (options_.timed) // events count from here: nothing may be on its way
      ZTC_RETURN_IF_ERROR(synchronize());
    if (options_.timed)
      ZTC_RETURN_IF_ERROR(timer_.begin(stream(kComputeStream)));
    if (!severalStreams)
      return Status::ok();
    ZTC_RETURN_IF_ERROR(order(kComputeStream, kCommunicationStream, forked_));
    return resources_.hasMoves ? order(kComputeStream, kMoveStream, forked_) : Status::ok();
  }

  Status finishProgram(bool severalStreams) override {
    if (severalStreams)
      ZTC_RETURN_IF_ERROR(order(kCommunicationStream, kComputeStream, joined_));
    if (severalStreams && resources_.hasMoves)
      ZTC_RETURN_IF_ERROR(order(kMoveStream, kComputeStream, joined_));
    if (!recorder_.isRecording())
      ZTC_RETURN_IF_ERROR(explain(ends_.mark()));
    if (options_.timed) {
      ZTC_RETURN_IF_ERROR(synchronize());
      ZTC_RETURN_IF_ERROR(timer_.collect());
    }
    return resources_.communicator ? resources_.communicator->status() : Status::ok();
  }

  Status beginRecording() override { return recorder_.begin(); }
  StatusOr<std::unique_ptr<RecordedProgram>> endRecording() override { return recorder_.end(ends_); }
  bool timesSteps() const override { return true; }

  void abandon(const std::string &reason) override {
    if (recorder_.isRecording())
      (void)recorder_.end(ends_);
    if (resources_.communicator)
      resources_.communicator->abort(reason);
    waitForStreams(); // the error that led here is the one that counts
  }

  Status warmLibraries(Communicator *communicator) override {
    return explain(warmCudaLibraries(resources_, communicator))
        .withContext("what libraries take of the GPU beside the arena");
  }
  uint64_t lateBytes() const override { return resources_.gpu.isEmulated() ? 0 : kLateDeviceBytes; }
  uint64_t roundedArenaBytes(uint64_t bytes) const override { return cudaArenaBytes(driver_, resources_.gpu, bytes); }
  uint64_t estimatedReserveBytes(uint32_t world) const override {
    return ztc::estimatedReserveBytes(resources_.kernels.target(), world);
  }
  StatusOr<uint64_t> freeBytes() const override {
    size_t freeNow = 0, total = 0;
    ZTC_RETURN_IF_ERROR(driver_.check(driver_.cuMemGetInfo_v2(&freeNow, &total), "cuMemGetInfo"));
    return uint64_t(freeNow);
  }
  std::string memoryName() const override {
    const Gpu &gpu = resources_.gpu;
    return "GPU " + gpu.busId + (gpu.isSlice() ? ", " + gpu.uuid : "");
  }
  /// Context, kernels, libraries: what this GPU's use has grown by, so that other processes may be in it.
  uint64_t libraryBytes() const override {
    const uint64_t used = monitor_.usedBytes(), known = usedBefore_ + arenaBytes_;
    return used > known ? used - known : 0;
  }
  DeviceTelemetry telemetry() const override { return monitor_.telemetry(); }
  double peakFlopsPerSecond(plan::DataType type) const override {
    return ztc::peakFlopsPerSecond(resources_.gpu, type, clockHertz_);
  }
  StatusOr<DeviceLimits> measureLimits() override { return measureCudaLimits(resources_, productType_); }
  void setTrace(TraceRecorder *trace) override { timer_.setTrace(trace); }

private:
  /// Who computes it and why, once steps that need it are prepared.
  std::string attentionText() const {
    std::string forward, gradient, text;
    for (const CudaAttentionStep *step : resources_.attention) {
      std::string &ways = step->isGradient() ? gradient : forward;
      const std::string way = step->text();
      if (ways.find(way) == std::string::npos) // as other calls of the plan
        ways += (ways.empty() ? "" : "; ") + way;
    }
    if (!forward.empty())
      text = fmt::format("attention{} by {}", forward == gradient ? " and its gradient" : "", forward);
    if (!gradient.empty() && gradient != forward)
      text += (text.empty() ? "" : ", ") + ("attention gradient by " + gradient);
    return text;
  }

  friend class CudaReadBack;
  /// What `after` gets from now on comes after what `before` was given.
  Status order(CudaStreamIndex before, CudaStreamIndex after, cuda::Event event) {
    ZTC_RETURN_IF_ERROR(driver_.check(driver_.cuEventRecord(event, stream(before)), "cuEventRecord"));
    return driver_.check(driver_.cuStreamWaitEvent(stream(after), event, 0), "cuStreamWaitEvent");
  }

  cuda::Stream stream(CudaStreamIndex index) const { return resources_.streams[index]; }
  void waitForStreams() {
    for (cuda::Stream stream : resources_.streams)
      if (stream)
        driver_.cuStreamSynchronize(stream);
  }

  /// What kernels have noted, once the streams have been waited for.
  Status takeFaults() {
    for (TokenFault *fault : resources_.faults)
      ZTC_RETURN_IF_ERROR(fault->take());
    return resources_.transferFault.status();
  }

  /// A communicator's own words are better than those of the stream that its failure ended.
  Status explain(Status status) const {
    if (resources_.communicator)
      if (Status communicated = resources_.communicator->status(); !communicated.isOk())
        return communicated;
    return status;
  }

  const CudaDeviceOptions options_;
  const CudaDriver &driver_;
  CudaResources resources_;
  CudaMonitor monitor_;
  cuda::Context context_ = nullptr;
  uint64_t usedBefore_ = 0; ///< bytes of the GPU before this process had anything there
  uint64_t arenaBytes_ = 0;
  double clockHertz_ = 0; ///< the highest
  plan::DataType productType_ = plan::F32;
  PinnedStaging staging_;
  CudaRecorder recorder_;
  CudaProgramEnds ends_;
  CudaTimer timer_;
  cuda::Event forked_ = nullptr, joined_ = nullptr; ///< where the communication stream begins and ends a program
};

Status CudaReadBack::enqueue(uint64_t to, const std::byte *from, uint64_t bytes) {
  programs_ = device_.ends_.marked();
  ZTC_RETURN_IF_ERROR(
      driver_.check(driver_.cuMemcpyDtoHAsync_v2(memory_ + to, reinterpret_cast<cuda::Address>(from), bytes, stream_),
                    "cuMemcpyDtoHAsync"));
  return driver_.check(driver_.cuEventRecord(event_, stream_), "cuEventRecord");
}

StatusOr<const std::byte *> CudaReadBack::wait() {
  ZTC_RETURN_IF_ERROR(device_.explain(device_.ends_.waitFor(programs_)));
  ZTC_RETURN_IF_ERROR(device_.explain(driver_.check(driver_.cuEventSynchronize(event_), "cuEventSynchronize")));
  ZTC_RETURN_IF_ERROR(device_.takeFaults());
  if (device_.resources_.communicator)
    ZTC_RETURN_IF_ERROR(device_.resources_.communicator->status());
  return memory_;
}

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
