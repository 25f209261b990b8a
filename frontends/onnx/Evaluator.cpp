#include "frontends/onnx/Evaluator.h"
#include "frontends/onnx/Budget.h"
#include "frontends/onnx/CheckNodes.h"
#include "llvm/ADT/Twine.h"
#include <limits>

using llvm::StringRef;

namespace ztc::importer {

const Kernel *kernelOf(StringRef signature) {
  static const llvm::StringMap<Kernel> table = [] {
    llvm::StringMap<Kernel> kernels;
    addElementwiseKernels(kernels);
    addShapeKernels(kernels);
    addIndexKernels(kernels);
    addFunctionKernels(kernels);
    addArrangeKernels(kernels);
    addSelectionKernels(kernels);
    addReductionKernels(kernels);
    addProductKernels(kernels);
    addModelKernels(kernels);
    addContribKernels(kernels);
    return kernels;
  }();
  auto found = table.find(signature);
  return found == table.end() ? nullptr : &found->second;
}

const KnownValue &KernelContext::in(unsigned index) const {
  static const KnownValue none;
  return has(index) ? evaluator.values[node.inputs[index]] : none;
}

const KnownValue &KernelContext::out(unsigned index) const {
  return evaluator.values[node.outputs[index]];
}

const HostTensor &KernelContext::data(unsigned index) {
  static const HostTensor none(ElementType::Undefined, {0});
  const KnownValue &value = in(index);
  if (value.data)
    return *value.data;
  fail("needs the elements of input " + llvm::Twine(index) + ", which depend on data");
  return none;
}

llvm::SmallVector<int64_t> KernelContext::integers(unsigned index, StringRef attribute) {
  llvm::SmallVector<int64_t> result;
  if (has(index)) {
    const HostTensor &tensor = data(index);
    for (int64_t i = 0, n = tensor.count(); i < n; ++i)
      result.push_back(tensor.integer(i));
  } else {
    auto list = node.integers(attribute);
    result.assign(list.begin(), list.end());
  }
  return result;
}

const HostTensor *KernelContext::scalar(unsigned index) {
  const HostTensor &tensor = data(index);
  if (!hasFailed && tensor.count() != 1)
    fail("input " + llvm::Twine(index) + " has " + llvm::Twine(tensor.count()) + " elements, the operator needs one");
  return hasFailed ? nullptr : &tensor;
}

int64_t KernelContext::normalAxis(int64_t axis, size_t rank) {
  int64_t normal = axis < 0 ? axis + int64_t(rank) : axis;
  if (normal >= 0 && normal < int64_t(rank))
    return normal;
  fail("axis " + llvm::Twine(axis) + " is outside of a tensor of rank " + llvm::Twine(rank));
  return 0;
}

void KernelContext::shape(unsigned output, ElementType type, Shape shape) {
  if (output >= node.outputs.size() || node.outputs[output].empty())
    return;
  if (!checkedCount(shape)) {
    fail("gives a tensor of an impossible size");
    return;
  }
  KnownValue &value = evaluator.values[node.outputs[output]];
  value.type = type;
  value.shape = std::move(shape);
}

HostTensor *KernelContext::result(unsigned output, ElementType type, Shape shape) {
  this->shape(output, type, shape);
  if (!wantData || hasFailed || output >= node.outputs.size() || node.outputs[output].empty())
    return nullptr;
  const uint64_t count = uint64_t(countOf(shape));
  auto tensor = evaluator.graph.budget->allocate(type, std::move(shape));
  if (!tensor)
    fail("gives a tensor of " + llvm::Twine(count) + " elements; with those before it that is more than the " +
         llvm::Twine(evaluator.graph.budget->limits.bytes >> 20) + " MiB that ztc takes to evaluate a graph");
  if (!tensor || !spend(count))
    return nullptr;
  HostTensor *raw = tensor.get();
  evaluator.values[node.outputs[output]].data = std::move(tensor);
  return raw;
}

void KernelContext::share(unsigned output, TensorRef tensor) {
  if (tensor && wantData && output < node.outputs.size())
    evaluator.values[node.outputs[output]].data = std::move(tensor);
}

void KernelContext::reshaped(Shape shape) {
  if (std::optional<int64_t> count = checkedCount(shape); !count || *count != countOf(in(0).shape)) {
    fail("changes the number of elements from " + llvm::Twine(countOf(in(0).shape)) + " to " +
         (count ? llvm::Twine(*count) : llvm::Twine("an impossible one")));
    return;
  }
  TensorRef from = in(0).data;
  if (!wantData || !from) {
    this->shape(0, in(0).type, shape);
  } else if (HostTensor *tensor = result(0, in(0).type, shape)) {
    *tensor = *from;
    tensor->shape = std::move(shape);
  }
}

bool KernelContext::spend(uint64_t operations) {
  return evaluator.graph.budget->spend(operations) ||
         fail("with this node more than " + llvm::Twine(evaluator.graph.budget->limits.operations) +
              " operations are needed to evaluate what does not depend on data, which no model needs");
}

bool KernelContext::fail(const llvm::Twine &text) {
  if (!hasFailed && evaluator.message.empty())
    evaluator.message = ("node '" + node.label() + "' (" + node.signature + "): " + text).str();
  hasFailed = true;
  return false;
}

namespace {
bool isIn(uint32_t set, unsigned index) {
  return (set >> std::min(index, 31u)) & 1;
}
} // namespace

Evaluator::Evaluator(const Model &model, const Liveness &liveness, Binding binding)
    : graph(model), liveness(liveness), bound(binding) {
  bindInputs();
}

namespace {
/// What a role gives an input of which the elements follow from the binding; null for one that has no elements.
TensorRef boundTensor(const GraphValue &input, const InputBinding &binding, int64_t B, int64_t S,
                      EvaluationBudget &budget) {
  Shape shape(input.shape);
  for (size_t d = 0; d < shape.size(); ++d)
    if (shape[d] < 0)
      shape[d] = d == 0 ? B : S;
  auto filled = [&](llvm::function_ref<double(int64_t)> value) -> TensorRef {
    auto tensor = budget.allocate(input.type, shape);
    for (int64_t i = 0, n = tensor ? tensor->count() : 0; i < n; ++i) {
      if (tensor->storage() == HostTensor::Storage::Reals)
        tensor->reals[i] = value(i);
      else if (tensor->storage() == HostTensor::Storage::Integers)
        tensor->integers[i] = int64_t(value(i));
      else
        tensor->bits[i] = value(i) != 0;
    }
    return tensor;
  };
  switch (binding.role) {
  case InputRole::AttentionMask: // (B, S), or (B, past + S) with no past
    shape = {B, S};
    return filled([](int64_t) { return 1.0; });
  case InputRole::Mask: { // (B, 1, S, S): true, or 0, where it is visible
    if (shape.size() < 2)
      return nullptr;
    for (size_t d = 0; d < shape.size(); ++d)
      if (input.shape[d] < 0)
        shape[d] = d == 0 ? B : d + 2 < shape.size() ? 1 : S;
    int64_t rows = shape[shape.size() - 2], columns = shape.back();
    bool isReal = isFloat(input.type);
    return filled([=](int64_t i) {
      bool isVisible = i % columns <= i / columns % rows;
      return isReal ? (isVisible ? 0.0 : -std::numeric_limits<double>::infinity()) : double(isVisible);
    });
  }
  case InputRole::Positions: // (S) or (B, S)
    shape = shape.size() == 1 ? Shape{S} : Shape{B, S};
    return filled([=](int64_t i) { return double(i % S); });
  case InputRole::Past: // symbolic sizes that are neither the batch nor the length cannot matter: it is empty
    for (size_t d = 0; d < shape.size(); ++d)
      if (int64_t(d) == binding.pastAxis || (input.shape[d] < 0 && d > 0))
        shape[d] = 0;
    return budget.allocate(input.type, shape);
  case InputRole::SequenceLength:
    return filled([=](int64_t) { return double(S - 1); });
  case InputRole::TotalLength:
    return filled([=](int64_t) { return double(S); });
  case InputRole::Zeros:
    return filled([](int64_t) { return 0.0; });
  case InputRole::Tokens:
  case InputRole::Labels:
  case InputRole::LossWeights:
  case InputRole::Unused:
  case InputRole::Data:
  case InputRole::Unknown:
    return nullptr;
  }
  return nullptr;
}
} // namespace

void Evaluator::bindInputs() {
  for (const GraphValue &input : graph.inputs) {
    KnownValue &value = values[input.name];
    value.type = input.type;
    InputBinding binding = liveness.roles.lookup(input.name);
    if (binding.role == InputRole::Tokens) {
      value.shape = {bound.batch, bound.sequence};
    } else if (binding.role == InputRole::Data) {
      value.shape = input.shape;
    } else if (TensorRef tensor = boundTensor(input, binding, bound.batch, bound.sequence, *graph.budget)) {
      value.shape = tensor->shape;
      value.data = std::move(tensor);
    } else {
      value.type = ElementType::Undefined;
    }
  }
  for (const Initializer &initializer : graph.initializers) {
    KnownValue &value = values[initializer.name];
    value.type = initializer.type;
    value.shape = initializer.shape;
  }
}

bool Evaluator::isReady(StringRef name, bool wantData) const {
  auto found = values.find(name);
  if (found == values.end() || found->second.type == ElementType::Undefined)
    return false;
  return !wantData || found->second.data || liveness.isLive(name);
}

bool Evaluator::demand(StringRef name, bool wantData) {
  struct Request {
    std::string value;
    bool wantData;
  };
  llvm::SmallVector<Request> stack{{name.str(), wantData}};
  while (!stack.empty() && message.empty()) {
    Request request = stack.back();
    if (isReady(request.value, request.wantData)) {
      stack.pop_back();
      continue;
    }
    if (const Initializer *initializer = graph.initializer(request.value)) {
      StringRef bytes = graph.bytesOf(*initializer, message);
      if (!message.empty())
        return false;
      auto tensor = graph.budget->allocate(initializer->type, initializer->shape);
      if (!tensor) {
        message = "the values of '" + initializer->name +
                  "' are needed; with those before them that is more than the " +
                  std::to_string(graph.budget->limits.bytes >> 20) + " MiB that ztc takes to evaluate a graph";
        return false;
      }
      *tensor = HostTensor::fromBytes(*initializer, bytes);
      values[request.value].data = std::move(tensor);
      continue;
    }
    auto producer = graph.producerOf.find(request.value);
    if (producer == graph.producerOf.end()) {
      message = "input '" + request.value + "' has no value";
      return false;
    }
    const Node &node = graph.nodes[producer->second];
    const Kernel *kernel = kernelOf(node.signature);
    if (!kernel) {
      message = "node '" + node.label() + "': op " + node.signature + " is not supported";
      return false;
    }
    size_t before = stack.size();
    for (unsigned i = 0; i < node.inputs.size(); ++i) {
      bool needData =
          isIn(kernel->shapeInputs, i) || (request.wantData && !kernel->dataFree && !isIn(kernel->typeInputs, i));
      if (node.hasInput(i) && !isReady(node.inputs[i], needData))
        stack.push_back({node.inputs[i], needData});
    }
    if (stack.size() == before && !runNode(producer->second, request.wantData))
      return false;
  }
  return message.empty();
}

bool Evaluator::runNode(unsigned index, bool wantData) {
  const Node &node = graph.nodes[index];
  KernelContext context(*this, node, wantData);
  llvm::SmallVector<ElementType> types;
  uint64_t elements = 0;
  for (unsigned i = 0; i < node.inputs.size(); ++i) {
    const KnownValue &value = context.in(i);
    types.push_back(value.type);
    elements += wantData && value.data ? uint64_t(value.data->count()) : 0;
  }
  if (!context.spend(elements + 1))
    return false;
  // Kernels rely on it: one type where the operator says so, and no other than it takes.
  if (const OperatorSchema *schema = graph.schemaOf(node))
    if (std::string problem = findTypeProblem(node, *schema, types); !problem.empty())
      return context.fail(problem);
  kernelOf(node.signature)->run(context);
  if (context.failed())
    return false;
  for (const std::string &output : node.outputs)
    if (!output.empty() && !isReady(output, wantData))
      return context.fail(wantData ? "this use of the op is not evaluated" : "its shape is not known");
  return true;
}

const KnownValue *Evaluator::shapeOf(StringRef value) {
  return demand(value, false) ? &values[value] : nullptr;
}

TensorRef Evaluator::valueOf(StringRef value) {
  if (liveness.isLive(value) || !demand(value, true))
    return nullptr;
  return values[value].data;
}

void followLiveness(const Model &model, Liveness &result) {
  for (const Node &node : model.nodes) {
    const Kernel *kernel = kernelOf(node.signature);
    if (kernel && kernel->dataFree)
      continue;
    for (unsigned i = 0; i < node.inputs.size(); ++i)
      if (node.hasInput(i) && result.isLive(node.inputs[i]) && !(kernel && isIn(kernel->typeInputs, i))) {
        for (const std::string &output : node.outputs)
          result.live.insert(output);
        break;
      }
  }
}

bool findLiveness(const Model &model, llvm::function_ref<bool(const Initializer &)> isParameter, Liveness &result,
                  std::string &error) {
  if (result.roles.empty() && !findRoles(model, {}, result.roles, error))
    return false;
  for (const GraphValue &input : model.inputs)
    if (result.roles.lookup(input.name).role == InputRole::Tokens)
      result.live.insert(input.name);
  for (const Initializer &initializer : model.initializers)
    if (isParameter(initializer)) {
      result.parameters.insert(initializer.name);
      result.live.insert(initializer.name);
    }
  followLiveness(model, result);
  return true;
}

} // namespace ztc::importer
