#include "frontends/onnx/Ties.h"
#include "frontends/onnx/WeightForm.h"
#include <cstring>

using namespace mlir;

namespace ztc::importer {
namespace {

bool areEqual(llvm::StringRef a, bool transposedA, llvm::StringRef b, bool transposedB, int64_t rows, int64_t columns,
              unsigned elementSize) {
  if (transposedA == transposedB)
    return a == b;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) {
      int64_t straight = (r * columns + c) * elementSize, turned = (c * rows + r) * elementSize;
      if (std::memcmp(a.data() + (transposedA ? turned : straight), b.data() + (transposedB ? turned : straight),
                      elementSize) != 0)
        return false;
    }
  return true;
}

/// Whether two tensors are the same bytes of one file, which need not be there.
bool areOnePlace(const Initializer &a, const Initializer &b) {
  return a.isExternal && b.isExternal && a.location == b.location && a.offset == b.offset && a.length == b.length;
}

template <typename OpTy> bool isUsedBy(mlir::Value value) {
  return llvm::any_of(value.getUsers(), [](Operation *user) { return isa<OpTy>(user); });
}

/// Whether one matrix as its parameter reads it is the other, or its transpose; nothing where elements are not there.
std::optional<bool> areEqual(const Model &model, const Parameter &one, const Parameter &other,
                             bool transposed = false) {
  llvm::StringRef a = viewOf(model, *one.initializer).bytes, b = viewOf(model, *other.initializer).bytes;
  if (a.empty() || b.empty())
    return std::nullopt;
  ArrayRef<int64_t> shape = shapeOf(one.argument);
  return areEqual(a, one.transposed, b, other.transposed != transposed, shape[0], shape[1],
                  elementBytes(one.initializer->type));
}

/// Whether `copy`, a matrix, is `one` or its transpose, by value.
bool isCopyOf(const Model &model, const Parameter &copy, const Parameter &one) {
  if (one.initializer->type != copy.initializer->type || shapeOf(one.argument).size() != 2)
    return false;
  ArrayRef<int64_t> shape = shapeOf(one.argument), other = shapeOf(copy.argument);
  auto isEqual = [&](bool transposed) { return areEqual(model, one, copy, transposed).value_or(false); };
  const bool fits = shape == other && isEqual(false),
             fitsTurned = shape[0] == other[1] && shape[1] == other[0] && isEqual(true);
  return fits != fitsTurned; // both: it says nothing
}

/// The parameter of index `copy` becomes that of index `kept`, or its transpose; the index may change.
void join(Emitter &emitter, size_t kept, size_t copy, bool transposed = false) {
  std::vector<Parameter> &parameters = emitter.parameters();
  llvm::append_range(parameters[kept].places, parameters[copy].places);
  BlockArgument argument = parameters[copy].argument;
  mlir::Value value = parameters[kept].argument;
  if (transposed) {
    OpBuilder builder = OpBuilder::atBlockBegin(argument.getOwner());
    value = transposeTo(builder, argument.getLoc(), value, {1, 0});
  }
  argument.replaceAllUsesWith(value);
  (void)emitter.function().eraseArgument(argument.getArgNumber());
  parameters.erase(parameters.begin() + ptrdiff_t(copy));
}

} // namespace

void restoreTies(Emitter &emitter, const Model &model, bool configTies, ImportReport &report) {
  std::vector<Parameter> &parameters = emitter.parameters();
  for (size_t t = 0; t < parameters.size(); ++t) {
    if (!isUsedBy<graph::EmbeddingOp>(parameters[t].argument))
      continue;
    for (size_t h = 0; h < parameters.size(); ++h) {
      Parameter &table = parameters[t], &head = parameters[h];
      if (h == t || head.argument.getType() != table.argument.getType() ||
          head.initializer->type != table.initializer->type ||
          !(isUsedBy<graph::MatmulOp>(head.argument) || isUsedBy<graph::TransposeOp>(head.argument)))
        continue;
      const bool isQuantized = table.initializer->quantized || head.initializer->quantized;
      const std::optional<bool> equal = areEqual(model, table, head);
      const bool isTied = equal                                                ? *equal
                          : areOnePlace(*table.initializer, *head.initializer) ? table.transposed == head.transposed
                                                                               : configTies;
      if (!isTied)
        continue;
      report.notes.push_back(isQuantized ? head.name + " is " + table.name +
                                               " by config.json, and the graph has them apart, one of them in fewer "
                                               "bits: tied again, with the numbers of " +
                                               table.name
                                         : head.name + " is a copy of " + table.name + " in the graph: tied again");
      table.tied.push_back(head.name);
      join(emitter, t, h);
      return;
    }
  }
}

void joinTransposedCopies(Emitter &emitter, const Model &model, const Names &names, ImportReport &report) {
  std::vector<Parameter> &parameters = emitter.parameters();
  auto isNamed = [&](const Parameter &parameter) {
    return !names.checkpointName(parameter.initializer->name).empty() || names.isDeclared(parameter.name);
  };
  for (size_t c = 0; c < parameters.size();) {
    const Parameter &copy = parameters[c];
    auto original = parameters.end();
    if (!isNamed(copy) && shapeOf(copy.argument).size() == 2)
      original =
          llvm::find_if(parameters, [&](const Parameter &one) { return isNamed(one) && isCopyOf(model, copy, one); });
    if (original == parameters.end()) {
      ++c;
      continue;
    }
    report.notes.push_back("'" + copy.initializer->name + "' in the graph is the transpose of " + original->name +
                           ", by value: trained as one");
    join(emitter, size_t(original - parameters.begin()), c, !areEqual(model, *original, copy).value_or(false));
  }
}

void tieShared(Emitter &emitter, const Model &model, const Names &names, std::set<std::string> &untrained,
               ImportReport &report) {
  auto leafOf = [](llvm::StringRef name) { return name.substr(name.rfind('.') + 1); };
  for (Parameter &parameter : emitter.parameters())
    for (const ParameterPlace &place : parameter.places)
      for (const auto &[output, input] : place.readers) {
        const Node *reader = model.producer(output);
        const std::string scope = reader ? names.scopeOf(*reader) : "";
        auto shared = llvm::find_if(untrained, [&](const std::string &tensor) {
          return leafOf(tensor) == leafOf(parameter.name) && !scope.empty() && names.isOfModule(tensor, scope);
        });
        if (shared == untrained.end())
          continue;
        report.notes.push_back(*shared + " is " + parameter.name + ", which its module shares");
        parameter.tied.push_back(*shared);
        untrained.erase(shared);
      }
}

} // namespace ztc::importer
