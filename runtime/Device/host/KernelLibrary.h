// The plan's generated kernels, loaded.
#pragma once
#include "runtime/Core/LoadedImage.h"
#include "runtime/Device/host/HostDevice.h"
#include "runtime/Format/plan.pb.h"
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ztc {

/// Loads the images that this processor can run and finds kernels in them.
class KernelLibrary {
public:
  using Overrides = std::vector<std::pair<std::string, KernelFunction>>;
  KernelLibrary() = default;
  KernelLibrary(const KernelLibrary &) = delete;
  KernelLibrary &operator=(const KernelLibrary &) = delete;

  /// Chooses the best instruction set for which all kernels have a version, and loads its images. `overrides` come
  /// first. Fails (FailedPrecondition) where the processor can run none of the versions.
  Status load(const plan::Plan &plan, const Overrides &overrides);
  /// A kernel by its index in the plan.
  StatusOr<KernelFunction> find(uint32_t kernel) const;
  /// The chosen instruction set, e.g. "x86-64-v3"; empty where the plan has no kernels.
  const std::string &target() const { return target_; }

private:
  void close();
  std::vector<std::optional<LoadedImage>> images_; ///< by the plan's image index; none: not loaded
  std::vector<std::pair<std::string, KernelFunction>>
      kernels_; ///< by the plan's kernel index; the function is null where absent
  std::string target_;
};

} // namespace ztc
