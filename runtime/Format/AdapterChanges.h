// The tensors of a PEFT folder as changes of a model's.
#pragma once
#include "runtime/Format/AdapterConfig.h"
#include "runtime/Format/AdapterNames.h"
#include "runtime/Format/Safetensors.h"
#include "runtime/Format/WeightChange.h"
#include <set>

namespace ztc {

class AdapterChanges {
public:
  /// `folder` has adapter_config.json and adapter_model.safetensors; an error names what it lacks.
  static StatusOr<AdapterChanges> open(const std::string &folder);

  /// What becomes of the tensor of this name and shape in the model's checkpoint, whose names may lack the first part
  /// of transformers'; nothing where it stays as it is. An error where the adapter's tensors do not fit it.
  StatusOr<std::optional<WeightChange>> of(const std::string &name, const std::vector<int64_t> &shape);

  /// `configJson`: the model's config.json, which says how its stacks of experts lie where shapes do not.
  void setModel(const std::string &configJson);

  /// Tensors of the adapter that nothing has asked for.
  std::vector<std::string> unread() const;

  const AdapterConfig &config() const { return config_; }
  const SafetensorsFile &file() const { return file_; }

private:
  AdapterChanges(AdapterConfig config, SafetensorsFile file);
  bool has(const std::string &name) const { return file_.find(name) != nullptr; }
  StatusOr<std::vector<float>> read(const std::string &name);
  Status addFactors(WeightChange &change, const std::string &module, const std::vector<int64_t> &shape);
  Status addExpert(WeightChange &change, const ExpertPart &part, const std::vector<int64_t> &shape);
  Status addStack(WeightChange &change, const std::string &stack, const std::vector<int64_t> &shape);
  Status addRows(WeightChange &change, const std::string &module, const std::vector<int64_t> &shape);
  /// That of one of a tensor's names.
  Status collect(WeightChange &change, const std::string &name, const std::vector<int64_t> &shape);

  AdapterConfig config_;
  SafetensorsFile file_;
  std::set<std::string> firstParts_; ///< of module names, each with its dot
  std::set<std::string> read_;
  bool hasInputsFirst_ = false; ///< stacks of experts, see hasInputsFirst
};

} // namespace ztc
