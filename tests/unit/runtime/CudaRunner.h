// Runs hand-written steps on the CUDA device over the stand-ins of tests/standin: no GPU is needed, and none is used.
#pragma once
#include "runtime/Device/cuda/CudaDevice.h"
#include "runtime/Device/cuda/nccl/NcclCommunicator.h"
#include "tests/conformance/CommunicatorFactories.h"
#include "tests/conformance/StepRunner.h"
#include <cstdlib>
#include <dlfcn.h>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <utility>

namespace ztc::test {

inline CudaLibraryPaths standIns() {
  CudaLibraryPaths paths;
  paths.standIns = ZTC_STAND_INS_FOLDER;
  return paths;
}

inline DeviceFactory standInDevice(CudaDeviceOptions options = {}) {
  options.libraries = standIns();
  return [options](uint32_t) { return createCudaDevice(options); };
}

/// How often the stand-in driver was called: "waits" of the host, "cuGraphLaunch".
inline uint64_t calls(const char *what) {
  void *library = dlopen(ZTC_STAND_INS_FOLDER "/libztc-standin-cuda.so", RTLD_NOW);
  return reinterpret_cast<uint64_t (*)(const char *)>(dlsym(library, "ztcStandInCalls"))(what);
}

/// Sets a variable while it lives.
class Variable {
public:
  Variable(const char *name, const char *value) : name_(name) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name_); }

private:
  const char *name_;
};

/// A runner with the hand-written kernels, each over one row a block.
class CudaRunner : public StepRunner {
public:
  explicit CudaRunner(CudaDeviceOptions options = {}) : StepRunner(standInDevice(std::move(options))) {
    std::ifstream file(ZTC_STANDIN_KERNELS, std::ios::binary);
    plan::Image *image = plan().add_images();
    image->set_target("simt");
    image->set_data(std::string(std::istreambuf_iterator<char>(file), {}));
  }
  uint32_t addKernel(const std::string &name, uint32_t blockThreads, const std::string &target = "simt") {
    plan::Kernel *kernel = plan().add_kernels();
    kernel->set_name(name);
    plan::Kernel::Version *version = kernel->add_versions();
    version->set_target(target);
    version->set_block_threads(blockThreads);
    version->set_units_per_block(1);
    return uint32_t(plan().kernels_size() - 1);
  }
  plan::Launch *launch(const std::string &name, std::initializer_list<uint32_t> slots, uint32_t kernel, uint64_t rows,
                       int64_t width) {
    plan::Launch *launch = step(name, slots)->mutable_launch();
    launch->set_kernel(kernel);
    launch->set_extent(rows);
    launch->add_scalars(width);
    return launch;
  }
  /// Orders what `stream` was given so far ahead of what `later` gets from now on.
  void order(uint32_t stream, uint32_t later, uint32_t event) {
    plan::Step *record = step("record " + std::to_string(event), {});
    record->set_stream(stream);
    record->mutable_record()->set_event(event);
    plan::Step *wait = step("wait " + std::to_string(event), {});
    wait->set_stream(later);
    wait->mutable_wait()->set_event(event);
  }
};

/// Each rank in a thread with its own device, communicator and steps. `body` gets them prepared by `build`.
template <typename Build, typename Body> void onRanks(uint32_t world, Build &&build, Body &&body) {
  LocalStore store;
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < world; ++rank)
    threads.emplace_back([&, rank] {
      CudaRunner runner;
      Status status = runner.makeDevice(1); // its context belongs to this thread
      ASSERT_TRUE(status.isOk()) << status.message();
      NcclOptions options{
          .rank = rank, .world = world, .timeoutMs = 20000, .libraries = standIns(), .store = store.callbacks()};
      auto communicator = createNcclCommunicator(options);
      ASSERT_TRUE(communicator.isOk()) << communicator.status().message();
      build(runner, rank);
      status = runner.prepareOn(communicator->get());
      ASSERT_TRUE(status.isOk()) << status.message();
      body(runner, rank, **communicator);
      runner.release(); // what is recorded goes before the communicator
    });
  for (std::thread &thread : threads)
    thread.join();
}

inline plan::Step *collectiveStep(StepRunner &runner, const std::string &name, std::initializer_list<uint32_t> slots,
                                  plan::Collective::Kind kind) {
  plan::Step *step = runner.step(name, slots);
  step->set_stream(1);
  step->mutable_collective()->set_kind(kind);
  step->mutable_collective()->set_type(plan::F32);
  return step;
}

} // namespace ztc::test
