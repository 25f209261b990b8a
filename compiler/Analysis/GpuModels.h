// What `ztc plan --gpu=NAME` knows of a GPU: memory, and rates for the cost model.
#pragma once
#include "compiler/Analysis/CostModel.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace ztc {

struct GpuModel {
  const char *name;       ///< as --gpu takes it
  const char *target;     ///< whose machine code it runs
  double memoryGib;       ///< the driver's total (cudaMemGetInfo), the smallest seen; below what the name says
  double tensorTeraflops; ///< bf16 products, dense, with f32 sums
  double vectorTeraflops; ///< f32 outside of tensor cores
  double memoryTerabytes; ///< per second
  double linkGigabytes;   ///< per second and direction, to GPUs of the same machine
  double hostGigabytes;   ///< the same to the host's memory
  unsigned multiprocessors;
  double cacheMegabytes; ///< L2

  uint64_t memoryBytes() const { return uint64_t(memoryGib * (uint64_t(1) << 30)); }
};

/// All that there are, the largest memory first.
llvm::ArrayRef<GpuModel> allGpuModels();
/// By name, in any case of letters; null where there is none.
const GpuModel *findGpuModel(llvm::StringRef name);
/// For messages: all names, with commas.
std::string gpuModelNames();

/// What such a GPU reaches: the rates of the H100, by the ratio of the data sheets.
MachineRates ratesOf(const GpuModel &model);

/// From here on ratesOf(PlanShape) of GPUs is that of this model; null: of the H100. For a program to call once, before
/// it asks for rates.
void useGpuModel(const GpuModel *model);
/// What was given; null where nothing was.
const GpuModel *gpuModelInUse();
/// Whether a device that calls itself `name`, "NVIDIA GeForce RTX 4090", is of this model.
bool isOfModel(llvm::StringRef name, const GpuModel &model);

} // namespace ztc
