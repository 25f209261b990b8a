// Runs hand-written steps on a device: what every device must do is said in terms of plan steps and slots.
#pragma once
#include "runtime/Device/cuda/CudaDevice.h"
#include "runtime/Device/host/HostDevice.h"
#include "runtime/Executor/Executor.h"
#include "runtime/Memory/Planner.h"
#include "tests/conformance/Values.h"
#include "tests/standin/ProcessLibraries.h"
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace ztc::test {

using DeviceFactory = std::function<StatusOr<std::unique_ptr<Device>>(uint32_t threads)>;

/// Whether steps run on a GPU.
inline bool onGpu() {
  const char *device = std::getenv("ZTC_TEST_DEVICE");
  return device && std::string(device) == "cuda";
}
/// No stand-in, which adds up one by one and rounds once.
inline bool onRealGpu() {
  return onGpu() && !std::getenv("ZTC_STAND_INS");
}

/// The host; a GPU where ZTC_TEST_DEVICE is cuda: the one that the stand-ins in ZTC_STAND_INS stand for, if that is
/// set. ZTC_CUDNN=0 keeps it from cuDNN.
inline DeviceFactory testDevice(std::vector<std::pair<std::string, KernelFunction>> kernels) {
  if (onGpu())
    return [](uint32_t) {
      CudaDeviceOptions options;
      options.libraries = cudaLibraryPathsOfProcess();
      return createCudaDevice(options);
    };
  return [kernels = std::move(kernels)](uint32_t threads) { return createHostDevice({threads, kernels}); };
}

/// A plan in the making. Slots lie one after the other; a program runs its steps in order.
class StepRunner {
public:
  explicit StepRunner(std::vector<std::pair<std::string, KernelFunction>> kernels = {})
      : kernels_(std::move(kernels)), makeDevice_(testDevice(kernels_)) {
    for (const auto &[name, function] : kernels_)
      plan_.add_kernels()->set_name(name);
  }

  explicit StepRunner(DeviceFactory device) : makeDevice_(std::move(device)) {}

  /// A slot that starts with these values; the padding after them is zero.
  template <typename T> uint32_t slot(const std::vector<T> &values) {
    uint32_t index = scratch(values.size() * sizeof(T), false);
    plan::Constant *constant = plan_.add_constants();
    constant->set_slot(index);
    constant->set_data(values.data(), values.size() * sizeof(T));
    return index;
  }
  /// A slot of bytes, times the threads where `perThread`.
  uint32_t scratch(uint64_t bytes, bool perThread) {
    plan::Slot *slot = plan_.add_slots();
    slot->mutable_size()->set_kind(perThread ? plan::SizeForm::PER_THREAD : plan::SizeForm::CONSTANT);
    slot->mutable_size()->set_elements(bytes);
    slot->mutable_size()->set_gpu_elements(bytes);
    slot->mutable_size()->set_element_bytes(1);
    return uint32_t(plan_.slots_size() - 1);
  }
  /// A step of program "microstep" over whole slots.
  plan::Step *step(const std::string &name, std::initializer_list<uint32_t> slots) {
    if (plan_.programs_size() == 0)
      plan_.add_programs()->set_name("microstep");
    plan::Step *step = plan_.mutable_programs(0)->add_steps();
    step->set_name(name);
    for (uint32_t slot : slots)
      step->add_operands()->set_slot(slot);
    return step;
  }
  plan::Plan &plan() { return plan_; }
  /// Names the kernels that a GPU executes for a library call; the host needs none. Fails the test where the build has
  /// no such kernel.
  template <typename Record> void useGpuKernels(Record &record, const std::vector<std::string> &names) {
    if (!onGpu())
      return;
    if (gpuKernels_.empty())
      addGpuKernels();
    for (const std::string &name : names) {
      auto found = gpuKernels_.find(name);
      ASSERT_NE(found, gpuKernels_.end()) << "no kernel " << name;
      record.add_gpu_kernels(found->second);
    }
  }
  uint32_t kernel(const std::string &name) const {
    for (size_t i = 0; i < kernels_.size(); ++i)
      if (kernels_[i].first == name)
        return uint32_t(i);
    return UINT32_MAX;
  }

  /// What packed rows stay within.
  void bound(DocumentBounds documents) { documents_ = documents; }

  /// Makes device, executor and arena. `communicator`: of this rank; null: there is one.
  Status prepare(uint32_t threads, Communicator *communicator = nullptr) {
    ZTC_RETURN_IF_ERROR(makeDevice(threads));
    return prepareOn(communicator);
  }
  Status makeDevice(uint32_t threads) {
    executor_.reset();
    arena_.reset();
    device_.reset();
    ZTC_ASSIGN_OR_RETURN(device_, makeDevice_(threads));
    return Status::ok();
  }
  Status prepareOn(Communicator *communicator) {
    const uint32_t threads = device_->threads();
    PlanShape shape{communicator ? communicator->world() : 1, 1, threads};
    MemoryPlan memory;
    for (const plan::Slot &slot : plan_.slots()) {
      const uint64_t bytes = sizeBytes(slot.size(), shape);
      memory.slots.push_back({memory.arenaBytes, bytes});
      memory.arenaBytes += (bytes + 255) / 256 * 256; // as the planner aligns them
    }
    ZTC_ASSIGN_OR_RETURN(executor_, Executor::create(plan_, memory, shape, communicator ? communicator->rank() : 0,
                                                     *device_, communicator, nullptr, nullptr, documents_));
    ZTC_ASSIGN_OR_RETURN(arena_, device_->memory().allocateArena(memory.arenaBytes));
    return executor_->initialize(*arena_);
  }
  /// Ends the executor: before a communicator that it uses.
  void release() { executor_.reset(); }
  Status run(uint32_t microstep = 0) { return executor_->execute("microstep", microstep); }
  /// prepare and one run, as a test assertion.
  void runOnce(uint32_t threads) {
    Status status = prepare(threads);
    ASSERT_TRUE(status.isOk()) << status.message();
    status = run();
    ASSERT_TRUE(status.isOk()) << status.message();
  }
  template <typename T = float> std::vector<T> read(uint32_t slot, size_t count) const {
    std::vector<T> values(count);
    Status status = executor_->readSlot(slot, 0, values.data(), count * sizeof(T));
    EXPECT_TRUE(status.isOk()) << status.message();
    return values;
  }
  Executor &executor() { return *executor_; }
  Device &device() { return *device_; }
  Arena &arena() { return *arena_; }

private:
  /// What the compiler made for this kind of GPU (tests/standin/kernels/ServiceKernels.cpp): in the file that
  /// ZTC_SERVICE_KERNELS names, else beside the stand-ins.
  void addGpuKernels() {
    const char *named = std::getenv("ZTC_SERVICE_KERNELS"), *folder = std::getenv("ZTC_STAND_INS");
    const std::string path = named ? named : std::string(folder ? folder : "") + "/service-kernels.plan";
    std::ifstream file(path, std::ios::binary);
    plan::Plan made;
    ASSERT_TRUE(file && made.ParseFromIstream(&file)) << "cannot read " << path;
    for (plan::Kernel kernel : made.kernels()) {
      for (plan::Kernel::Version &version : *kernel.mutable_versions())
        version.set_image(version.image() + uint32_t(plan_.images_size()));
      gpuKernels_[kernel.name()] = uint32_t(plan_.kernels_size());
      *plan_.add_kernels() = kernel;
    }
    plan_.mutable_images()->MergeFrom(made.images());
  }

  std::vector<std::pair<std::string, KernelFunction>> kernels_;
  std::map<std::string, uint32_t> gpuKernels_; ///< by name; index in the plan
  DeviceFactory makeDevice_;
  plan::Plan plan_;
  DocumentBounds documents_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Arena> arena_;
  std::unique_ptr<Executor> executor_;
};

} // namespace ztc::test
