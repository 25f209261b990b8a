// Generated kernels: their modules, and the steps that launch them.
#include "runtime/Device/cuda/CudaStep.h"
#include "runtime/Format/HostLaunch.h"
#include "runtime/Format/PlanValidator.h"
#include <algorithm>
#include <fmt/format.h>
#include <set>

namespace ztc {
namespace {

const plan::Kernel::Version *findVersion(const plan::Kernel &kernel, const std::string &target) {
  for (const plan::Kernel::Version &version : kernel.versions())
    if (version.target() == target)
      return &version;
  return nullptr;
}

bool isForGpu(const plan::Kernel &kernel) {
  return std::any_of(kernel.versions().begin(), kernel.versions().end(),
                     [](const plan::Kernel::Version &version) { return isGpuTarget(version.target()); });
}

/// Targets from the one to take first: made for this very architecture, then the latest.
std::vector<std::string> rankedTargets(const std::set<std::string> &targets, const Gpu &gpu) {
  std::vector<std::string> ranked;
  for (const std::string &target : targets)
    if (gpu.executes(target))
      ranked.push_back(target);
  std::sort(ranked.begin(), ranked.end(), [](const std::string &a, const std::string &b) {
    const bool exactA = a.back() == 'a', exactB = b.back() == 'a';
    return exactA != exactB ? exactA : std::pair(a.size(), a) > std::pair(b.size(), b);
  });
  return ranked;
}

/// A driver loads no machine code of a later major CUDA version, but compiles the PTX that it was made of.
bool isTooNew(const plan::Image &image, const CudaDriver &driver) {
  return int(image.cuda_version() / 1000) > driver.version / 1000;
}

} // namespace

Status CudaKernels::loadImage(const plan::Image &image, const Gpu &gpu, cuda::Module &module) {
  const bool isText = isTooNew(image, driver_);
  if (isText && image.ptx().empty())
    return failedPrecondition(fmt::format(
        "the plan's kernels for {} were assembled by CUDA {}, the driver of {} supports CUDA {}: install a later "
        "driver, or compile with a ptxas of CUDA {} (CUDA_HOME names its toolkit) or none",
        image.target(), cudaVersionText(int(image.cuda_version())), gpu.name, cudaVersionText(driver_.version),
        driver_.version / 1000));
  const Status loaded = driver_.check(
      driver_.cuModuleLoadData(&module, isText ? image.ptx().data() : image.data().data()), "cuModuleLoadData");
  if (isText)
    compiled_ =
        fmt::format("compiled by the driver: the plan's are of CUDA {}", cudaVersionText(int(image.cuda_version())));
  return loaded.withContext(
      fmt::format("the plan's {} for {} on {}", isText ? "PTX" : "image", image.target(), gpu.name));
}

CudaKernels::~CudaKernels() {
  unload();
}

void CudaKernels::unload() {
  for (cuda::Module module : modules_)
    if (module)
      driver_.cuModuleUnload(module);
  modules_.clear();
  kernels_.clear();
  target_.clear();
  compiled_.clear();
}

Status CudaKernels::load(const plan::Plan &plan, const Gpu &gpu) {
  unload();
  if (plan.kernels_size() == 0)
    return Status::ok();
  std::set<std::string> targets;
  for (const plan::Kernel &kernel : plan.kernels())
    for (const plan::Kernel::Version &version : kernel.versions())
      targets.insert(version.target());
  // Kernels of the host's library calls have no version for a GPU, and no step of a GPU asks for them.
  for (const std::string &target : rankedTargets(targets, gpu))
    if (target_.empty() && std::all_of(plan.kernels().begin(), plan.kernels().end(), [&](const plan::Kernel &kernel) {
          return !isForGpu(kernel) || findVersion(kernel, target);
        }))
      target_ = target;
  if (target_.empty())
    return failedPrecondition(fmt::format("the plan's kernels are for {}; {} runs {}: compile with --target={}",
                                          fmt::join(targets, ", "), gpu.name,
                                          gpu.isEmulated() ? gpu.target() : gpu.architecture(), gpu.target()));
  modules_.resize(size_t(plan.images_size()));
  for (const plan::Kernel &kernel : plan.kernels()) {
    if (!isForGpu(kernel)) {
      kernels_.push_back({});
      continue;
    }
    const plan::Kernel::Version &version = *findVersion(kernel, target_);
    if (version.image() >= modules_.size())
      return dataLoss(fmt::format("kernel {} names image {} of {}", kernel.name(), version.image(), modules_.size()));
    if (version.block_threads() == 0 || version.units_per_block() == 0)
      return dataLoss(fmt::format("kernel {} has no geometry for {}", kernel.name(), target_));
    cuda::Module &module = modules_[version.image()];
    if (!module)
      ZTC_RETURN_IF_ERROR(loadImage(plan.images(int(version.image())), gpu, module));
    CudaKernel found{nullptr, version.block_threads(), version.units_per_block(), version.waits()};
    if (driver_.cuModuleGetFunction(&found.function, module, kernel.name().c_str()) != cuda::kSuccess)
      return dataLoss(fmt::format("the kernel image for {} lacks {}", target_, kernel.name()));
    int threads = 0;
    ZTC_RETURN_IF_ERROR(driver_.check(driver_.cuFuncGetAttribute(&threads, cuda::kFunctionMaxThreads, found.function),
                                      "cuFuncGetAttribute"));
    if (int64_t(found.blockThreads) > threads)
      return failedPrecondition(fmt::format("kernel {} wants blocks of {} threads, {} can run {} of it", kernel.name(),
                                            found.blockThreads, gpu.name, threads));
    kernels_.push_back(found);
  }
  return Status::ok();
}

StatusOr<CudaKernel> CudaKernels::find(uint32_t kernel) const {
  if (kernel >= kernels_.size())
    return dataLoss(fmt::format("kernel index {} is out of range: the plan has {}", kernel, kernels_.size()));
  if (!kernels_[kernel].function)
    return dataLoss(fmt::format("kernel {} is for the host alone", kernel));
  return kernels_[kernel];
}

Status CudaStep::launch(const CudaKernel &kernel, const uint64_t *parameters, size_t count) const {
  const uint64_t extent = parameters[count - 1], blocks = kernel.blocks(extent);
  if (blocks == 0)
    return Status::ok();
  if (blocks > 0x7fffffff)
    return dataLoss(fmt::format("a range of {} units makes too many blocks", extent));
  size_t bytes = count * sizeof(uint64_t);
  void *extra[] = {cuda::kLaunchBufferPointer, const_cast<uint64_t *>(parameters), cuda::kLaunchBufferSize, &bytes,
                   cuda::kLaunchEnd};
  if (kernel.waits && resources_.overlapsLaunches) {
    cuda::LaunchAttribute mayOverlap;
    const cuda::LaunchConfiguration configuration{unsigned(blocks), 1,           1, kernel.blockThreads, 1, 1, 0,
                                                  stream_,          &mayOverlap, 1};
    return driver().check(driver().cuLaunchKernelEx(&configuration, kernel.function, nullptr, extra),
                          "cuLaunchKernelEx");
  }
  return driver().check(driver().cuLaunchKernel(kernel.function, unsigned(blocks), 1, 1, kernel.blockThreads, 1, 1, 0,
                                                stream_, nullptr, extra),
                        "cuLaunchKernel");
}

Status CudaStep::launch(const CudaKernel &kernel, std::initializer_list<uint64_t> words, uint64_t extent) const {
  std::array<uint64_t, 24> parameters{};
  if (words.size() >= parameters.size())
    return internalError(fmt::format("a kernel with {} parameters", words.size() + 1));
  std::copy(words.begin(), words.end(), parameters.begin());
  parameters[words.size()] = extent;
  return launch(kernel, parameters.data(), words.size() + 1);
}

StatusOr<std::vector<CudaKernel>> CudaStep::gpuKernels(const google::protobuf::RepeatedField<uint32_t> &indices,
                                                       size_t count) const {
  if (indices.empty())
    return failedPrecondition(
        fmt::format("the plan has no kernel for this step on a GPU: compile with --target={}",
                    resources_.gpu.isEmulated() ? resources_.gpu.target() : resources_.kernels.target()));
  if (size_t(indices.size()) != count)
    return dataLoss(fmt::format("{} kernels for this step on a GPU, {} are needed", indices.size(), count));
  std::vector<CudaKernel> kernels;
  for (uint32_t index : indices) {
    ZTC_ASSIGN_OR_RETURN(const CudaKernel kernel, resources_.kernels.find(index));
    kernels.push_back(kernel);
  }
  return kernels;
}

Status CudaStep::requireAligned() const {
  for (size_t i = 0; i < operands_.count(); ++i)
    if (operands_.offset(i) % kGpuVectorBytes != 0)
      return dataLoss(fmt::format("operand {} begins at byte {}, which is not a multiple of {}", i, operands_.offset(i),
                                  kGpuVectorBytes));
  return Status::ok();
}

namespace {

class CudaLaunch : public CudaStep {
public:
  explicit CudaLaunch(const CudaPrepare &from) : CudaStep(from) {}

  Status prepare(const CudaPrepare &from) {
    const plan::Launch &launch = from.step.launch();
    ZTC_RETURN_IF_ERROR(operands_.resolve(from.step, from.context, {}));
    accumulate_ = launch.accumulate();
    ZTC_ASSIGN_OR_RETURN(range_, launchRange(launch, from.context));
    ZTC_ASSIGN_OR_RETURN(overwrite_, resources_.kernels.find(launch.kernel()));
    if (accumulate_ != plan::OVERWRITE) {
      ZTC_ASSIGN_OR_RETURN(add_, resources_.kernels.find(launch.kernel_add()));
    }
    return Status::ok();
  }

  Status initialize(std::byte *arena) override {
    ZTC_RETURN_IF_ERROR(CudaStep::initialize(arena));
    // One word each: addresses, scalars, extent.
    parameters_.clear();
    for (size_t i = 0; i < operands_.count(); ++i)
      parameters_.push_back(address(i));
    for (int64_t scalar : range_.scalars)
      parameters_.push_back(uint64_t(scalar));
    parameters_.push_back(range_.extent);
    return Status::ok();
  }

  Status execute(uint32_t microstep) override {
    return launch(addsNow(accumulate_, microstep) ? add_ : overwrite_, parameters_.data(), parameters_.size());
  }

private:
  CudaKernel overwrite_, add_;
  plan::Accumulate accumulate_ = plan::OVERWRITE;
  LaunchRange range_;
  std::vector<uint64_t> parameters_;
};

} // namespace

PreparedStep prepareCudaLaunch(const CudaPrepare &from) {
  if (computesOnHost(from.step))
    return prepareCudaHostLaunch(from);
  auto step = std::make_unique<CudaLaunch>(from);
  ZTC_RETURN_IF_ERROR(step->prepare(from));
  return PreparedStep(std::move(step));
}

} // namespace ztc
