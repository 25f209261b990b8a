#include "compiler/Codegen/DeviceTargets.h"
#include "llvm/ADT/STLExtras.h"

namespace ztc {

static constexpr unsigned kAmpereProducts = kF16Products | kBf16Products | kTf32Products;
static constexpr unsigned kHopperInstructions = kCopyAsync | kBulkCopy | kDependentLaunch;

static constexpr DeviceTarget kTargets[] = {
    {"sm_80", 80, 11000, 2048, 32, 164, 163, kAmpereProducts, kCopyAsync, "A100, A800, A30"},
    {"sm_86", 80, 11010, 1536, 16, 100, 99, kAmpereProducts, kCopyAsync, "A10, A40, RTX A6000, RTX 30"},
    {"sm_89", 80, 11080, 1536, 24, 100, 99, kAmpereProducts | kFp8Products, kCopyAsync,
     "L4, L40S, RTX 6000 Ada, RTX 40"},
    {"sm_90a", 80, 12000, 2048, 32, 228, 227, kAmpereProducts | kFp8Products, kHopperInstructions | kWarpgroupProducts,
     "H100, H200, GH200"},
    {"sm_100a", 86, 12070, 2048, 32, 228, 227, kAmpereProducts | kFp8Products | kBlockScaledProducts,
     kHopperInstructions | kTensorMemoryProducts, "B200, GB200"},
    {"sm_103a", 88, 12090, 2048, 32, 228, 227, kAmpereProducts | kFp8Products | kBlockScaledProducts,
     kHopperInstructions | kTensorMemoryProducts, "B300, GB300"},
    {"sm_120a", 87, 12080, 1536, 24, 100, 99, kAmpereProducts | kFp8Products | kBlockScaledProducts,
     kHopperInstructions, "RTX PRO 6000 Blackwell, RTX 50"},
    {"sm_121a", 88, 12090, 1536, 24, 100, 99, kAmpereProducts | kFp8Products | kBlockScaledProducts,
     kHopperInstructions, "GB10 (DGX Spark)"},
};

llvm::ArrayRef<DeviceTarget> deviceTargets() {
  return kTargets;
}

const DeviceTarget *findDeviceTarget(llvm::StringRef name) {
  const auto *found = llvm::find_if(kTargets, [&](const DeviceTarget &target) { return target.name == name; });
  return found == std::end(kTargets) ? nullptr : found;
}

bool isDeviceTarget(llvm::StringRef name) {
  return name == kSimtTarget || findDeviceTarget(name);
}

std::string deviceTargetNames() {
  std::string names;
  for (const DeviceTarget &target : kTargets)
    names += target.name.str() + ", ";
  return names + kSimtTarget.str();
}

} // namespace ztc
