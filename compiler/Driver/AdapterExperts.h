// Modules that an adapter's target_modules name and PEFT gives no factors: experts, routers, projections that it
// refuses.
#pragma once
#include "compiler/Driver/ModelModules.h"
#include "runtime/Format/AdapterConfig.h"
#include "runtime/Format/Safetensors.h"

namespace ztc::driver {

/// Experts (and routers of all-linear) which are modules in the checkpoint, and parameters of transformers 5, so that
/// PEFT gave them no factors: where a folder has given factors and none for any expert, or where an adapter of
/// all-linear begins anew and PEFT would not take these for target_parameters.
class ExpertsLeftOut {
public:
  /// `tensors`: those of the adapter's folder; null where it begins anew.
  ExpertsLeftOut(const ModelModules &model, const AdapterConfig &config, const SafetensorsFile *tensors);

  /// Whether a module that is asked for is one to leave out, which note() counts.
  bool take(const ModelModule &module);
  /// What was left out and why, in a sentence; empty where nothing was.
  std::string note() const;
  /// The same of projections that PEFT refuses.
  std::string noteOfOutputs() const;

private:
  bool hasFactors(llvm::StringRef module) const;

  bool isAllLinear;
  std::string modelType;
  const SafetensorsFile *tensors;
  bool leavesExperts = false;
  unsigned experts = 0, routers = 0, outputs = 0;
};

/// What PEFT does not read again of adapters of these modules: those of experts' gate and up without down, of a model
/// type whose factors it makes stacks of. Empty where there are none such.
std::string noteOfHalves(const std::vector<std::string> &modules, llvm::StringRef modelType);

} // namespace ztc::driver
