#include "compiler/Driver/AdapterExperts.h"
#include "runtime/Format/AdapterNames.h"
#include "llvm/ADT/StringRef.h"

using llvm::StringRef;

namespace ztc::driver {

/// Whether it chooses the experts.
static bool isRouter(StringRef module) {
  return module.ends_with(".gate") || module.ends_with(".router") || module.ends_with(".router.layer");
}

ExpertsLeftOut::ExpertsLeftOut(const ModelModules &model, const AdapterConfig &config, const SafetensorsFile *tensors)
    : isAllLinear(config.isAllLinear), modelType(model.type()), tensors(tensors) {
  bool anyHasFactors = false;
  for (const ModelModule &module : model.modules())
    anyHasFactors |= expertPartOf(module.name) && hasFactors(module.name);
  leavesExperts = tensors ? !anyHasFactors : isAllLinear && !takesExpertsAsLinear(model.type());
}

bool ExpertsLeftOut::hasFactors(StringRef module) const {
  return tensors && tensors->find(std::string(kAdapterPrefix) + module.str() + ".lora_A.weight");
}

bool ExpertsLeftOut::take(const ModelModule &module) {
  if (isAllLinear && refusesAdapter(module.name, modelType)) {
    ++outputs;
    return true;
  }
  if (!leavesExperts)
    return false;
  if (expertPartOf(module.name)) {
    ++experts;
    return true;
  }
  const bool isLeft = isAllLinear && isRouter(module.name) && !hasFactors(module.name);
  routers += isLeft;
  return isLeft;
}

std::string ExpertsLeftOut::noteOfOutputs() const {
  if (!outputs)
    return {};
  return "adapter: out_proj of state space models is left out, " + std::to_string(outputs) +
         " in all: PEFT refuses adapters of it in model_type " + modelType;
}

std::string ExpertsLeftOut::note() const {
  if (!experts && !routers)
    return {};
  std::string what = experts ? std::to_string(experts) + " modules of experts" : "";
  if (routers)
    what += (experts ? " and " : "") + std::to_string(routers) + (routers == 1 ? " router" : " routers");
  return "adapter: " + what + " are left out, " +
         (tensors ? "for which the folder has no factors: " : "as PEFT leaves them out of all-linear: ") +
         "transformers 5 has them as parameters; to train adapters of them name them in target_parameters "
         "(mlp.experts.gate_up_proj, mlp.experts.down_proj, gate.weight)";
}

std::string noteOfHalves(const std::vector<std::string> &modules, StringRef modelType) {
  bool hasHalves = false, hasDown = false;
  for (const std::string &module : modules)
    if (const std::optional<ExpertPart> part = expertPartOf(module))
      (part->isHalf ? hasHalves : hasDown) = true;
  if (!hasHalves || hasDown || !takesExpertsAsLinear(modelType))
    return {};
  return "adapter: experts have factors of gate and up and none of down: PEFT 0.21 with transformers 5 does not find "
         "such factors in the folder that is written (\"missing adapter keys\") and computes without them; name down "
         "too, or the stack gate_up_proj in target_parameters";
}

} // namespace ztc::driver
