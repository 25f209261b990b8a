// The plan's generated kernels, loaded.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Device/host/HostDevice.h"
#include "runtime/Format/plan.pb.h"
#include <string>
#include <utility>
#include <vector>

namespace ztc {

/// Loads the images that this processor can run and finds kernels in them.
class KernelLibrary {
public:
  using Overrides = std::vector<std::pair<std::string, KernelFunction>>;
  KernelLibrary() = default;
  ~KernelLibrary();
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
  struct Image {
    void *handle = nullptr;
    int descriptor =
        -1; ///< stays open as long as the library lives: dlopen matches by name, and a reused number is an old name
  };
  static StatusOr<Image> open(const std::string &bytes);
  void close();
  std::vector<Image> images_; ///< by the plan's image index; not loaded: no handle
  std::vector<std::pair<std::string, KernelFunction>>
      kernels_; ///< by the plan's kernel index; the function is null where absent
  std::string target_;
};

} // namespace ztc
