// adapter_config.json of a PEFT folder: which modules of a model get low-rank adapters, and which (Hu et al., "LoRA").
#pragma once
#include "runtime/Core/Status.h"
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ztc {

/// Names of modules as PEFT takes them: a list, whose entries are a whole name or what it ends with after a dot, or
/// one regular expression over whole names.
struct ModuleNames {
  std::vector<std::string> list;
  std::string expression; ///< in place of the list
  bool isEmpty() const { return list.empty() && expression.empty(); }
};

/// Rows of a table that are trained, each in place of the model's.
struct TokenRows {
  std::string module;        ///< what the table's name ends with; empty: the table of the tokens
  std::vector<int64_t> rows; ///< numbers of tokens, each once
};
/// As many rows as that at most: the plan compares each token with each of them.
inline constexpr size_t kMostTokenRows = 1024;

/// How A and B begin where the folder has no tensors.
enum class AdapterStart {
  Kaiming,    ///< A uniform in +-1/sqrt(inputs), B zero
  Gaussian,   ///< A normal with deviation 1/rank, B zero
  Orthogonal, ///< A and B of orthogonal rows, a tenth of normal numbers each
  Given,      ///< in no way: the folder has them
};

/// Which biases of the model are trained beside.
enum class AdapterBias { None, All, OfTargets };

/// Whether the name of a module, or of one that it is in, ends with `name`: how PEFT takes modules_to_save.
bool isNamedOrIn(std::string_view module, std::string_view name);

struct AdapterConfig {
  int64_t rank = 8;
  double alpha = 8;
  bool isAllLinear = false; ///< every linear module but the head
  ModuleNames targets, excluded;
  std::vector<std::pair<std::string, int64_t>> rankPattern; ///< regular expression over a name's end -> rank
  std::vector<std::pair<std::string, double>> alphaPattern;
  bool dividesByRoot = false; ///< alpha / sqrt(rank) instead of alpha / rank
  bool hasBias = false;       ///< B has a bias of its own
  double dropout = 0;         ///< of each linear module's input, in training
  bool hasMagnitude = false;  ///< DoRA: each output of a weight and its adapter has a norm of its own
  AdapterBias bias = AdapterBias::None;
  std::vector<std::string> modulesToSave;
  std::vector<std::string> parameters;        ///< target_parameters: whole names of stacks of experts and weights, or
                                              ///< ends of them
  std::vector<TokenRows> tokenRows;           ///< trainable_token_indices
  std::optional<std::vector<int64_t>> layers; ///< blocks that get adapters; none: all
  std::vector<std::string> layersPatterns;    ///< regular expressions of what stands before a block's number
  AdapterStart start = AdapterStart::Kaiming;
  std::string text; ///< the JSON object itself, for an export

  /// Whether the adapter's B is multiplied by the first or the second: alpha over the rank, or its root.
  double scaleOf(std::string_view module) const;
  int64_t rankOf(std::string_view module) const;
  /// Whether a module of this name is trained whole, or is in one that is.
  bool saves(std::string_view module) const;
  /// Whether the names ask for a module; of `isAllLinear` the caller knows which are linear, and asks `isInLayers`.
  bool targetsModule(std::string_view module) const;
  /// Whether the number of a module's block is one of those asked for; where none are asked for all modules are.
  bool isInLayers(std::string_view module) const;
  bool excludesModule(std::string_view module) const;
  bool targetsParameter(std::string_view parameter) const;
  /// Whether a module's weight is targeted as a parameter, as the router's is. PEFT's files have the factors under the
  /// module's name; rank and alpha are asked for by the parameter's.
  bool targetsWeightOf(std::string_view module) const;
  /// Under which module PEFT's files have the factors of a stack that is targeted: of two of one module the last one
  /// (down_proj) is the outer, the other has `.base_layer` after the module's name.
  std::string stackName(std::string_view stack) const;
  /// The rows of a table that are trained; null where none are. Of those without a name the caller knows the table.
  const TokenRows *rowsOf(std::string_view module) const;
};

/// Reads the text of an adapter_config.json. A key that has PEFT's default is passed over, known or not; one that asks
/// for what ztc does not have is an error by name. `place` begins the messages.
StatusOr<AdapterConfig> parseAdapterConfig(std::string_view text, const std::string &place);

/// "r=16,alpha=32,targets=all-linear" (or targets=q_proj+v_proj; also rslora=true, dora=true, bias=NAME, dropout=X,
/// init=NAME) as an adapter_config.json.
StatusOr<std::string> adapterConfigText(std::string_view short_);

/// The configuration with the targets written out, as PEFT saves it; `base` names the model where that is known.
/// `fanInFanOut`: weights of targets are stored as (inputs, outputs).
std::string writtenAdapterConfig(const AdapterConfig &config, const std::vector<std::string> &targets,
                                 const std::string &base, bool fanInFanOut);

/// The part of the configurations that decides what a tensor means; "" where `given` agrees with `compiled`, else a
/// sentence with the first key that differs and both values.
std::string differenceOfAdapters(const std::string &compiled, const std::string &given);

/// What follows a table's name in the name of its trained rows.
inline constexpr std::string_view kTokenRowsSuffix = ".token_adapter.trainable_tokens_delta";

/// What stands before a module's name in PEFT's files.
inline constexpr std::string_view kAdapterPrefix = "base_model.model.";

} // namespace ztc
