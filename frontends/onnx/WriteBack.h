// The way back: how tensors of an ONNX file follow from a checkpoint, so that trained weights can stand in the graph
// that they were trained from.
#pragma once
#include "frontends/onnx/Emitter.h"
#include "frontends/onnx/WeightForm.h"

namespace ztc::importer {

/// Filled by an import with weights (ImportOptions::writeBack).
struct WriteBack {
  /// The weights are what training made of the graph's: where values differ, the form is still the same.
  bool isTrained = false;

  /// A tensor of the file, or columns of one, as a function of checkpoint tensors.
  struct Tensor {
    std::string name;    ///< of an initializer of the file, or the output of a Constant node
    std::string trained; ///< the parameter's name, for messages
    Shape shape;         ///< of what `form` gives
    WeightForm form;
    std::optional<FilePlace> place; ///< where the file does not have all of it, and nothing else, under `name`
    std::vector<std::pair<std::string, unsigned>> readers; ///< a node's first output, and the number of its input
  };
  std::vector<Tensor> tensors;
  /// For each parameter the names that its tensor may have in a checkpoint, likeliest first.
  std::vector<std::vector<std::string>> names;

  /// What `form` says of the parameter, for all places where the file has it.
  void add(const Parameter &parameter, const WeightForm &form);
};

} // namespace ztc::importer
