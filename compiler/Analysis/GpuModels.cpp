#include "compiler/Analysis/GpuModels.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace ztc {

// Memory: the smallest total that CUDA programs report on such a GPU ("GPU 0 has a total capacity of ..." in PyTorch's
// messages); error correction and the driver keep the rest. Rates: NVIDIA's data sheets, without sparsity; to the host
// 16 lanes of PCIe 5 or 4.
static const GpuModel kModels[] = {
    {"B200-180GB", "sm_100a", 178.3, 2250, 75, 7.7, 900, 64, 148, 126},
    {"H200-141GB", "sm_90a", 139.7, 989, 67, 4.8, 450, 64, 132, 50},
    {"H100-80GB", "sm_90a", 79.1, 989, 67, 3.35, 450, 64, 132, 50},
    {"H100-PCIE-80GB", "sm_90a", 79.1, 756, 51, 2.0, 64, 64, 114, 50},
    {"A100-80GB", "sm_80", 79.1, 312, 19.5, 2.04, 300, 32, 108, 40},
    {"RTX-A6000-48GB", "sm_80", 47.4, 155, 38.7, 0.77, 32, 32, 84, 6},
    {"RTX-6000-ADA-48GB", "sm_89", 47.4, 364, 91, 0.96, 32, 32, 142, 96},
    {"L40S-48GB", "sm_89", 44.3, 362, 91, 0.86, 32, 32, 142, 96},
    {"A100-40GB", "sm_80", 39.3, 312, 19.5, 1.56, 300, 32, 108, 40},
    {"RTX-3090-24GB", "sm_80", 23.5, 71, 35.6, 0.94, 32, 32, 82, 6},
    {"RTX-4090-24GB", "sm_89", 23.5, 165, 82.6, 1.0, 32, 32, 128, 72},
    {"A10G-24GB", "sm_80", 22.0, 70, 31.5, 0.6, 32, 32, 80, 6},
    {"L4-24GB", "sm_89", 21.9, 121, 30, 0.3, 32, 32, 58, 48},
};

llvm::ArrayRef<GpuModel> allGpuModels() {
  return kModels;
}

const GpuModel *findGpuModel(llvm::StringRef name) {
  const auto *found =
      llvm::find_if(kModels, [&](const GpuModel &model) { return name.equals_insensitive(model.name); });
  return found == std::end(kModels) ? nullptr : found;
}

std::string gpuModelNames() {
  return llvm::join(llvm::map_range(kModels, [](const GpuModel &model) { return std::string(model.name); }), ", ");
}

MachineRates ratesOf(const GpuModel &model) {
  const GpuModel &known = *findGpuModel("H100-80GB");
  MachineRates rates = gpuRates();
  rates.name = model.name;
  rates.productFlops *= model.vectorTeraflops / known.vectorTeraflops;
  rates.tf32ProductFlops *= model.tensorTeraflops / known.tensorTeraflops;
  rates.narrowProductFlops *= model.tensorTeraflops / known.tensorTeraflops;
  rates.fp8ProductFlops *= model.tensorTeraflops / known.tensorTeraflops; // twice those of bf16 wherever there are any
  rates.kernelFlops *= model.vectorTeraflops / known.vectorTeraflops;
  rates.memoryBytes *= model.memoryTerabytes / known.memoryTerabytes;
  rates.wireBytes *= model.linkGigabytes / known.linkGigabytes;
  rates.hostLinkBytes *= model.hostGigabytes / known.hostGigabytes;
  if (llvm::StringRef(model.target) != known.target)
    rates.scoresGradient = {}; // the library has one deterministic way there
  rates.multiprocessors = model.multiprocessors;
  rates.cacheBytes = 1e6 * model.cacheMegabytes;
  return rates;
}

static const GpuModel *&modelInUse() {
  static const GpuModel *model = nullptr;
  return model;
}

void useGpuModel(const GpuModel *model) {
  modelInUse() = model;
}

const GpuModel *gpuModelInUse() {
  return modelInUse();
}

bool isOfModel(llvm::StringRef name, const GpuModel &model) {
  // Its words but the last, which is the memory.
  llvm::SmallVector<llvm::StringRef> words;
  llvm::StringRef(model.name).rsplit('-').first.split(words, '-');
  return llvm::all_of(words, [&](llvm::StringRef word) { return name.contains_insensitive(word); });
}

} // namespace ztc
