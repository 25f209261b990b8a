// Names of modules and tensors: as a checkpoint has them, and as transformers' modules and PEFT's files have them.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ztc {

/// A module of one expert, in a checkpoint that has experts one by one, as a part of transformers' parameter of them
/// all.
struct ExpertPart {
  std::string stack; ///< "model.layers.0.mlp.experts.gate_up_proj": (experts, outputs, inputs)
  int64_t expert;
  bool isHalf;   ///< its outputs are half of the stack's: gate or up
  bool isSecond; ///< and those are the second half
};
/// Nothing where the name is that of no such module.
std::optional<ExpertPart> expertPartOf(std::string_view module);

/// The names that transformers' modules have for a tensor of the checkpoint that is a stack of experts, (experts, .,
/// .): "model.layers.0.block_sparse_moe.input_linear.weight" is ...experts.gate_up_proj of transformers 5, and itself
/// before. Empty where the name is that of no stack.
std::vector<std::string> stacksOfTensor(std::string_view tensor);
/// Whether stacks of this model type (config.json's) are (experts, inputs, outputs) in the checkpoint while PEFT's A
/// has a column for each input. Shapes say the same where a matrix is not square.
bool hasInputsFirst(std::string_view modelType);
/// Whether PEFT takes outputs for inputs in stacks of this model type: A has a column for each output, and B a row for
/// each input. Of Llama 4 it does: the stacks are (experts, inputs, outputs), and nothing in the module says so.
bool swapsStacks(std::string_view modelType);

/// The names that a checkpoint may have for what PEFT calls `name`, the likeliest first: checkpoints of some families
/// leave out the first part, multi-modal ones put the language model's parts in another order than transformers 5, and
/// Mixtral's call the router otherwise.
std::vector<std::string> checkpointNames(const std::string &name);
/// The names that transformers' modules may have for a tensor or module of a multi-modal checkpoint; the name itself
/// first.
std::vector<std::string> languageModelNames(const std::string &stored);
/// The names that transformers 5's routers may have for a module or tensor of a checkpoint of Mixtral and its like, the
/// likeliest first: "model.layers.0.block_sparse_moe.gate" is ...mlp.gate or, of PhiMoE, ...mlp.router. Empty where the
/// name is that of no such router.
std::vector<std::string> routerNames(std::string_view stored);
/// The name that transformers 5 has for a module, of this model type (config.json's): a router's one of routerNames(),
/// any other's the name itself.
std::string moduleOfTransformers5(const std::string &module, std::string_view modelType);

/// Whether the name in PEFT's file is that of the weight or bias beside which the factors of an embedding or a head
/// were trained: PEFT saves these too.
bool isBesideFactors(std::string_view name);

/// Whether PEFT refuses adapters of a module of this model type, as it does of the last projection of state space
/// models, which fast kernels read by itself.
bool refusesAdapter(std::string_view module, std::string_view modelType);

/// The name that transformers' module has for a module or tensor of a checkpoint of this model type, where the family
/// is one that only transformers 5 has and its checkpoints call a part otherwise: of HY-V3 "...mlp.shared_mlp.up_proj"
/// is ...mlp.shared_experts.up_proj. Any other name is itself.
std::string moduleOfFamily(const std::string &stored, std::string_view modelType);
/// The other way: the name in the checkpoint.
std::string storedOfFamily(const std::string &module, std::string_view modelType);
/// What moduleOfFamily() may give for a name where the model type is not known, without the name itself.
std::vector<std::string> familyNames(std::string_view stored);

/// Whether PEFT (0.21) gives experts and routers adapters where it is asked for all linear modules of a model of this
/// type, though transformers 5 has these as stacked parameters: it takes the names of the modules that they once were
/// for target_parameters. In models of any other type it finds no such modules.
bool takesExpertsAsLinear(std::string_view modelType);

} // namespace ztc
