#include "runtime/Device/host/KernelLibrary.h"
#include "runtime/Core/CpuFeatures.h"
#include "runtime/Format/PlanValidator.h"
#include <algorithm>
#include <fmt/format.h>

namespace ztc {

/// Instruction sets from best to plainest.
static constexpr const char *kTargets[] = {"x86-64-v4", "x86-64-v3"};

void KernelLibrary::close() {
  images_.clear();
  kernels_.clear();
  target_.clear();
}

/// Whether a GPU executes the kernel and no host does.
static bool isForGpuAlone(const plan::Kernel &kernel) {
  return !kernel.versions().empty() &&
         std::all_of(kernel.versions().begin(), kernel.versions().end(),
                     [](const plan::Kernel::Version &version) { return isGpuTarget(version.target()); });
}

static const plan::Kernel::Version *findVersion(const plan::Kernel &kernel, std::string_view target) {
  for (const plan::Kernel::Version &version : kernel.versions())
    if (version.target() == target)
      return &version;
  return nullptr;
}

Status KernelLibrary::load(const plan::Plan &plan, const Overrides &overrides) {
  close();
  images_.resize(plan.images_size());
  std::vector<const plan::Kernel *> wanted;
  bool forGpus = !plan.kernels().empty(); // the whole plan
  for (const plan::Kernel &kernel : plan.kernels()) {
    KernelFunction function = nullptr;
    for (const auto &[name, replacement] : overrides)
      if (name == kernel.name())
        function = replacement;
    kernels_.emplace_back(kernel.name(), function);
    wanted.push_back(function || isForGpuAlone(kernel) ? nullptr : &kernel);
    forGpus &= isForGpuAlone(kernel);
  }
  // One instruction set for all: choosing per kernel would be one more thing that bits depend on.
  std::string offered;
  for (const char *target : kTargets) {
    bool all = !forGpus;
    for (const plan::Kernel *kernel : wanted)
      all &= !kernel || findVersion(*kernel, target);
    if (all)
      offered += fmt::format("{}{}", offered.empty() ? "" : ", ", target);
    if (all && target_.empty() && hostSupports(target))
      target_ = target;
  }
  if (target_.empty())
    return failedPrecondition(
        fmt::format("this processor cannot run the plan's kernels (versions for: {}; x86-64-v3 needs AVX2 and FMA): "
                    "compile with --target=host on a machine like this one",
                    offered.empty() ? "no host" : offered));
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (!wanted[i])
      continue;
    uint32_t index = findVersion(*wanted[i], target_)->image();
    if (index >= images_.size())
      return dataLoss(fmt::format("kernel {} names image {} of {}", kernels_[i].first, index, images_.size()));
    if (!images_[index]) {
      ZTC_ASSIGN_OR_RETURN(images_[index], LoadedImage::load(plan.images(int(index)).data()));
    }
    kernels_[i].second = reinterpret_cast<KernelFunction>(images_[index]->find(kernels_[i].first));
    if (!kernels_[i].second)
      return dataLoss(fmt::format("the kernel image for {} lacks {}", target_, kernels_[i].first));
  }
  return Status::ok();
}

StatusOr<KernelFunction> KernelLibrary::find(uint32_t kernel) const {
  if (kernel >= kernels_.size())
    return dataLoss(fmt::format("kernel index {} is out of range: the plan has {}", kernel, kernels_.size()));
  if (!kernels_[kernel].second)
    return dataLoss(fmt::format("kernel {} is for GPUs alone", kernels_[kernel].first));
  return kernels_[kernel].second;
}

} // namespace ztc
