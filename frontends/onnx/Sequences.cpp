#include "frontends/onnx/Sequences.h"
#include "frontends/onnx/HostTensor.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <optional>

using llvm::StringRef;

namespace ztc::importer {
namespace {

std::optional<int64_t> constantInteger(const Model &model, StringRef value) {
  const Initializer *initializer = model.initializer(value);
  std::string error;
  StringRef bytes = initializer && initializer->count() == 1 && !isFloat(initializer->type)
                        ? model.bytesOf(*initializer, error)
                        : StringRef();
  if (bytes.empty())
    return std::nullopt;
  return HostTensor::fromBytes(*initializer, bytes).integer(0);
}

/// How the elements of one sequence are read.
struct Readers {
  std::vector<std::pair<unsigned, int64_t>> picks; ///< (node, constant index)
  bool areAllPicks = true;
};

Readers readersOf(const Model &model, StringRef sequence) {
  Readers readers;
  for (auto [i, node] : llvm::enumerate(model.nodes)) {
    if (!llvm::is_contained(node.inputs, sequence))
      continue;
    std::optional<int64_t> index = node.op == "SequenceAt" && node.inputs[0] == sequence && node.hasInput(1)
                                       ? constantInteger(model, node.inputs[1])
                                       : std::nullopt;
    readers.areAllPicks &= index.has_value();
    if (index)
      readers.picks.push_back({unsigned(i), *index});
  }
  for (const GraphValue &output : model.outputs)
    readers.areAllPicks &= output.name != sequence;
  return readers;
}

/// A pick of a piece becomes a slice of the whole.
void slicePick(Model &model, Node &pick, const Node &split, int64_t start, int64_t end) {
  std::string name = pick.outputs[0];
  pick.op = pick.signature = "Slice";
  pick.inputs = {split.inputs[0], model.addIntegers(name + "/start", {start}).name,
                 model.addIntegers(name + "/end", {end}).name,
                 model.addIntegers(name + "/axis", {split.integer("axis", 0)}).name};
}

} // namespace

void foldSequences(Model &model) {
  for (const Node &node : model.nodes) {
    bool isSplit = node.signature == "SplitToSequence", isList = node.signature == "SequenceConstruct";
    if ((!isSplit && !isList) || node.outputs.size() != 1)
      continue;
    Readers readers = readersOf(model, node.outputs[0]);
    if (!readers.areAllPicks)
      continue;
    if (isList) {
      int64_t length = int64_t(node.inputs.size());
      for (auto [index, element] : readers.picks) {
        Node &pick = model.nodes[index];
        if (element >= length || element < -length)
          continue;
        pick.op = pick.signature = "Identity";
        pick.inputs = {node.inputs[element < 0 ? element + length : element]};
      }
      continue;
    }
    std::string error;
    const Initializer *sizes = node.hasInput(1) ? model.initializer(node.inputs[1]) : nullptr;
    StringRef bytes = sizes ? model.bytesOf(*sizes, error) : StringRef();
    if (bytes.empty() || node.inputs.size() > 2)
      continue; // pieces of size 1 without their dimension
    HostTensor pieces = HostTensor::fromBytes(*sizes, bytes);
    for (auto [index, element] : readers.picks) {
      if (sizes->shape.empty()) { // pieces of one size: how many there are depends on the operand
        if (int64_t size = pieces.integer(0); element >= 0 && size > 0 && element < INT32_MAX && size < INT32_MAX)
          slicePick(model, model.nodes[index], node, element * size, (element + 1) * size);
        continue;
      }
      int64_t count = pieces.count(), which = element < 0 ? element + count : element, start = 0;
      if (which < 0 || which >= count)
        continue;
      for (int64_t k = 0; k < which; ++k)
        start += std::clamp<int64_t>(pieces.integer(k), 0, INT32_MAX);
      slicePick(model, model.nodes[index], node, start,
                start + std::clamp<int64_t>(pieces.integer(which), 0, INT32_MAX));
    }
  }
}

} // namespace ztc::importer
