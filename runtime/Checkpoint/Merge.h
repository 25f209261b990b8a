// The model that an adapter makes of the one that it was trained beside: each weight that it stands beside is changed
// as runtime/Format/WeightChange.h says, in f32 and rounded once.
#pragma once
#include "runtime/Checkpoint/TensorFiles.h"
#include "runtime/Checkpoint/Weights.h"
#include "runtime/Format/WeightChange.h"
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace ztc {

/// Into which weights an adapter goes.
enum class MergeInto {
  Trained,  ///< those that it was trained beside: of weights in fewer bits their numbers
  Original, ///< those that the bits were made of: the loss may differ then
};

/// What an export reads of the plan of the whole model: its parameters as a checkpoint has them. No program, no bucket.
plan::Plan wholeModelPlan(const plan::Plan &plan);

/// Before a run: fails, by name, where a model without an adapter cannot say what this one does (a bias where the model
/// has none, one of two uses of a tied tensor), and where there are no original weights to merge `into`. `weightTypes`:
/// of what --weights names, where it `hasWeights`.
Status checkMerge(const plan::Plan &plan, MergeInto into, const std::map<std::string, plan::DataType> &weightTypes,
                  bool hasWeights);

/// The merged tensors of a plan that trains an adapter. One rank's.
class MergedModel {
public:
  /// `weights.adapter` is the PEFT folder whose tensors are merged. Fails as checkMerge() does.
  static StatusOr<MergedModel> open(const plan::Plan &plan, const WeightOptions &weights, MergeInto into);

  /// Writes the tensors of a file of a set that was planned for wholeModelPlan(), which is there.
  Status write(const PlannedFile &planned, const std::string &path) const;

private:
  MergedModel() = default;
  Status collect(const plan::Plan &plan, const WeightOptions &weights);

  ModelSource source_;
  std::map<std::string, const plan::Parameter *> model_; ///< by name, of the plan that is trained
  std::map<std::string, WeightChange> changes_;          ///< by the model's name
  uint32_t threads_ = 1;
};

} // namespace ztc
