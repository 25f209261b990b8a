// What the inputs and outputs of a graph are for: proven from type, shape and use; a name decides only between what all
// three allow.
#pragma once
#include "frontends/onnx/Model.h"
#include "llvm/ADT/StringSet.h"

namespace ztc::importer {

/// What a graph input is bound to: tokens are data, everything else has a value that follows from the binding.
enum class InputRole {
  Unknown,
  Tokens,         ///< (B, S) rows of the data
  AttentionMask,  ///< (B, S) ones: nothing is padding
  Mask,           ///< (..., S, S) causal
  Positions,      ///< (S) or (B, S): 0 to S - 1
  Past,           ///< keys and values, length 0
  SequenceLength, ///< (B) or (B, 1): S - 1, what GroupQueryAttention calls seqlens_k
  TotalLength,    ///< scalar S
  Zeros,          ///< scalars (logits to keep, past length, use of a cache), token types, states of recurrences
  Labels,         ///< read by a loss only: not used
  LossWeights,    ///< (B, S) f32, read by a loss only: what the loss of each label is multiplied by, from the data
  Unused,
  Data, ///< an argument of any type and shape, of a graph that is not a language model (ImportGraph.h)
};

/// The word that --input and reports use.
llvm::StringRef roleName(InputRole role);

struct InputBinding {
  InputRole role = InputRole::Unknown;
  int64_t pastAxis = -1; ///< of Past: the dimension that holds the past positions
  std::string proof;     ///< how the role is known
};

/// What a user said: role or "logits" -> name of an input or output, in the order given.
using RequestedRoles = std::vector<std::pair<std::string, std::string>>;

/// Reads "ROLE=NAME"; false with a sentence where it is neither.
bool parseRequestedRole(llvm::StringRef text, RequestedRoles &roles, std::string &error);

/// The output that is the logits (B, S, V), by shape and the vocabulary-sized product that leads to it. Null, with a
/// sentence in `error`, where none or several may be.
const GraphValue *findLogits(const Model &model, const RequestedRoles &requested, std::string &error);

/// Whether the type is that of loss weights, f32 (B, S), and where asked for the name, `loss_weights`.
bool isLossWeights(const GraphValue &input, bool byName);

/// Inputs that a scalar output (a loss) is computed from.
llvm::StringSet<> inputsOfLoss(const Model &model);

/// The role of every input with respect to the nodes of `model`. False, with a sentence in `error`, where one has none
/// or several.
bool findRoles(const Model &model, const RequestedRoles &requested, llvm::StringMap<InputBinding> &roles,
               std::string &error);

/// Leaves only the output `logits` and what it is computed from; all inputs stay, in `model.inputs`.
void keepOnly(Model &model, llvm::StringRef logits);

} // namespace ztc::importer
