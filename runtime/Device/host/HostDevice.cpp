#include "runtime/Device/host/HostDevice.h"
#include "runtime/Core/HostMemory.h"
#include "runtime/Device/host/HostLimits.h"
#include "runtime/Device/host/HostStep.h"
#include "runtime/Device/host/Product.h"
#include "runtime/Format/PlanValidator.h"
#include "runtime/Format/Steps/StepDefinition.h"
#include <cstring>
#include <fmt/format.h>
#include <sys/mman.h>

namespace ztc {
namespace {

/// Pages come from the kernel zeroed when first touched; huge pages where it can.
class HostArena : public Arena {
public:
  static StatusOr<std::unique_ptr<Arena>> allocate(uint64_t bytes) {
    auto arena = std::make_unique<HostArena>();
    uint64_t mapped = bytes ? bytes : 1;
    void *memory = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
      return resourceExhausted(fmt::format("cannot reserve the arena of {} bytes: {}", bytes, std::strerror(errno)));
    madvise(memory, mapped, MADV_HUGEPAGE); // advice only: small pages work too
    arena->base_ = static_cast<std::byte *>(memory);
    arena->bytes_ = bytes;
    return StatusOr<std::unique_ptr<Arena>>(std::move(arena));
  }
  ~HostArena() override {
    if (base_)
      munmap(base_, bytes_ ? bytes_ : 1);
  }
};

/// Ordinary memory needs no more than a copy.
class HostArenaReader : public ArenaReader {
public:
  Status read(void *to, const std::byte *from, uint64_t bytes) override {
    std::memcpy(to, from, bytes);
    return Status::ok();
  }
};

class HostDevice : public Device, public DeviceMemory, public DeviceGauges {
public:
  explicit HostDevice(HostDeviceOptions options) : options_(std::move(options)), resources_(options_.threads) {}

  std::string name() const override { return "host"; }

  std::string description() const override {
    std::string text = fmt::format("host, {} thread{}", threads(), threads() == 1 ? "" : "s");
    if (!resources_.kernels.target().empty())
      text += ", " + resources_.kernels.target();
    if (precision_ != plan::F32)
      text += ", " + productPath(precision_);
    return text;
  }

  uint32_t threads() const override { return resources_.pool.threads(); }
  DeviceMemory &memory() override { return *this; }
  const DeviceMemory &memory() const override { return *this; }
  DeviceGauges &gauges() override { return *this; }
  const DeviceGauges &gauges() const override { return *this; }

  StatusOr<std::unique_ptr<Arena>> allocateArena(uint64_t bytes) override { return HostArena::allocate(bytes); }

  Status loadKernels(const plan::Plan &plan) override {
    precision_ = productType(plan);
    return resources_.kernels.load(plan, options_.kernels);
  }

  StatusOr<std::unique_ptr<DeviceStep>> prepareStep(const plan::Step &step, const PrepareContext &context) override {
    if (context.shape.threads != threads())
      return internalError(
          fmt::format("memory was planned for {} threads, the device has {}", context.shape.threads, threads()));
    if (step.stream() > 2)
      return dataLoss(fmt::format("the step is on stream {}: there are 0, 1 and 2", step.stream()));
    // The thread pool takes one job at a time, and it belongs to stream 0.
    const StepDefinition *definition = definitionOf(step);
    if (step.stream() == 1 && !(definition && definition->isCommunication()))
      return dataLoss("the step is on stream 1, which runs collectives only");
    switch (step.kind_case()) {
#define ZTC_STEP(name)                                                                                                 \
  case plan::Step::k##name:                                                                                            \
    return prepareHost##name({step, context, resources_});
#include "runtime/Format/Steps/StepKinds.def"
    case plan::Step::KIND_NOT_SET:
      break;
    }
    return dataLoss("the step is of no known kind");
  }

  Status upload(std::byte *to, const void *from, uint64_t bytes) override {
    std::memcpy(to, from, bytes);
    return Status::ok();
  }
  Status download(void *to, const std::byte *from, uint64_t bytes) override {
    std::memcpy(to, from, bytes);
    return Status::ok();
  }
  Status synchronize() override {
    ZTC_RETURN_IF_ERROR(resources_.streams.drain());
    return resources_.moves.drain();
  }
  void abandon(const std::string &reason) override {
    resources_.streams.abandon(reason);
    resources_.moves.abandon(reason);
  }
  StatusOr<uint64_t> freeBytes() const override { return availableMemoryBytes(); }
  StatusOr<std::unique_ptr<ArenaReader>> createReader() override {
    return std::unique_ptr<ArenaReader>(std::make_unique<HostArenaReader>());
  }
  uint64_t libraryBytes() const override { return resources_.matmuls.scratchpadBytes(); }
  StatusOr<DeviceLimits> measureLimits() override { return measureHostLimits(resources_, precision_); }
  void setTrace(TraceRecorder *trace) override {
    resources_.pool.setTrace(trace);
    if (resources_.streams.isStarted())
      resources_.streams.setTrace(trace);
    if (resources_.moves.isStarted())
      resources_.moves.setTrace(trace);
  }

private:
  HostDeviceOptions options_;
  HostResources resources_;
  plan::DataType precision_ = plan::F32; ///< what most of the plan's products multiply
};

} // namespace

StatusOr<std::unique_ptr<Device>> createHostDevice(HostDeviceOptions options) {
  if (options.threads == 0 || options.threads > 1024)
    return failedPrecondition(fmt::format("{} threads: give 1 to 1024", options.threads));
  return StatusOr<std::unique_ptr<Device>>(std::make_unique<HostDevice>(std::move(options)));
}

} // namespace ztc
