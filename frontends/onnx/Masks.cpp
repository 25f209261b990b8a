#include "frontends/onnx/Masks.h"
#include <set>

using llvm::ArrayRef;
using llvm::StringRef;

namespace ztc::importer {
namespace {

/// Sizes at which a symbolic mask is evaluated; they differ in parity and are larger than usual small constants.
constexpr Binding kSmallBindings[] = {{1, 4}, {2, 7}, {3, 12}};
/// Up to this sequence a mask is also evaluated at its real size: cheaper than the smallest step of training.
constexpr int64_t kEvaluatedSequence = 512;

/// What a mask shows at one size: its two values, and who sees whom in every (S, S) slab.
struct Picture {
  int64_t size = 0;
  double visible = 0, hidden = 0;
  bool hasHidden = false;
  std::vector<bool> seen; ///< of the first slab
};

/// Reads the two values off the tensor; false with a reason where it has more, or slabs that differ. What adds 0 is
/// visible; of booleans it is the one asked for.
bool look(const HostTensor &tensor, bool trueIsVisible, Picture &picture, std::string &reason) {
  if (!tensor.count()) {
    reason = "it has no elements";
    return false;
  }
  int64_t S = tensor.shape.back(), slab = S * S;
  bool isBoolean = tensor.storage() == HostTensor::Storage::Bits, hasZero = false;
  for (int64_t i = 0; i < slab && !isBoolean; ++i)
    hasZero |= tensor.real(i) == 0;
  picture.size = S;
  picture.visible = isBoolean ? trueIsVisible : hasZero ? 0 : tensor.real(0);
  picture.seen.resize(slab);
  for (int64_t i = 0, n = tensor.count(); i < n; ++i) {
    double value = tensor.real(i);
    bool isVisible = value == picture.visible;
    if (!isVisible && !picture.hasHidden) {
      picture.hidden = value;
      picture.hasHidden = true;
    }
    if (!isVisible && value != picture.hidden) {
      reason = "it has more than two values";
      return false;
    }
    if (i < slab)
      picture.seen[i] = isVisible;
    else if (picture.seen[i % slab] != isVisible) {
      reason = "it differs between rows of the batch or heads";
      return false;
    }
  }
  return true;
}

std::string draw(const Picture &picture) {
  std::string text;
  int64_t shown = std::min<int64_t>(picture.size, 12);
  for (int64_t i = 0; i < shown; ++i) {
    text += "\n  ";
    for (int64_t j = 0; j < shown; ++j)
      text += picture.seen[i * picture.size + j] ? '#' : '.';
  }
  return text;
}

bool matches(const Picture &picture, const Mask &mask) {
  for (int64_t i = 0; i < picture.size; ++i)
    for (int64_t j = 0; j < picture.size; ++j)
      if (picture.seen[i * picture.size + j] != mask.sees(i, j))
        return false;
  return true;
}

/// The formula that the largest picture suggests.
Mask suggest(const Picture &picture) {
  Mask mask;
  int64_t S = picture.size;
  mask.causal = S > 1 && !picture.seen[S - 1];
  int64_t inLastRow = 0;
  for (int64_t j = 0; j < S; ++j)
    inLastRow += picture.seen[(S - 1) * S + j];
  if (mask.causal && inLastRow < S)
    mask.window = inLastRow;
  return mask;
}

/// The formula that all pictures show, or none with a message that draws the first that does not.
std::optional<Mask> formulaOf(StringRef value, ArrayRef<TensorRef> tensors, bool trueIsVisible, std::string &error) {
  std::vector<Picture> pictures;
  for (const TensorRef &tensor : tensors) {
    Picture picture;
    std::string reason;
    if (!look(*tensor, trueIsVisible, picture, reason)) {
      error = "mask '" + value.str() + "' is not understood: " + reason + ":" + draw(picture);
      return std::nullopt;
    }
    pictures.push_back(std::move(picture));
  }
  Mask mask;
  for (const Picture &picture : pictures) {
    Mask suggested = suggest(picture);
    mask.causal |= suggested.causal;
    if (suggested.window)
      mask.window = suggested.window;
  }
  mask.visible = pictures.front().visible;
  for (const Picture &picture : pictures) {
    if (picture.hasHidden)
      mask.hidden = picture.hidden;
    if (!matches(picture, mask) || picture.visible != mask.visible ||
        (picture.hasHidden && picture.hidden != mask.hidden)) {
      error = "mask '" + value.str() + "' is neither causal nor a sliding window (" + std::to_string(picture.size) +
              " positions, # is visible):" + draw(picture);
      return std::nullopt;
    }
  }
  return mask;
}

} // namespace

std::string Mask::describe() const {
  if (window)
    return "sliding window " + std::to_string(window);
  return causal ? "causal" : "no mask";
}

MaskClassifier::MaskClassifier(const Model &model, const Liveness &liveness, Binding binding, bool isSymbolic)
    : model(model), liveness(liveness), binding(binding), isSymbolic(isSymbolic),
      small(model, liveness, isSymbolic ? Binding{2, 5} : binding),
      larger(model, liveness, isSymbolic ? Binding{2, 9} : binding) {}

bool MaskClassifier::isMask(StringRef value) {
  const KnownValue *a = small.shapeOf(value), *b = larger.shapeOf(value);
  auto isSquare = [](const KnownValue *v, int64_t S) {
    return v && S > 1 && v->shape.size() >= 2 && v->shape.back() == S && v->shape[v->shape.size() - 2] == S;
  };
  return isSquare(a, small.binding().sequence) && isSquare(b, larger.binding().sequence);
}

/// The small sizes, and one just above every integer constant of the subgraph that the real sequence exceeds: a window
/// shows only beyond its length.
std::vector<Binding> MaskClassifier::bindingsFor(StringRef value) const {
  if (!isSymbolic)
    return {binding};
  std::vector<Binding> bindings(std::begin(kSmallBindings), std::end(kSmallBindings));
  std::set<int64_t> thresholds;
  llvm::StringSet<> visited;
  std::vector<std::string> stack{value.str()};
  while (!stack.empty()) {
    std::string name = stack.back();
    stack.pop_back();
    if (!visited.insert(name).second)
      continue;
    const Initializer *initializer = model.initializer(name);
    std::string unreadable;
    llvm::StringRef bytes;
    if (initializer && initializer->count() == 1)
      bytes = model.bytesOf(*initializer, unreadable);
    if (!bytes.empty()) {
      double number = std::abs(HostTensor::fromBytes(*initializer, bytes).real(0));
      if (number >= kSmallBindings[2].sequence && number < double(binding.sequence))
        thresholds.insert(int64_t(number));
    }
    if (const Node *producer = model.producer(name))
      for (const std::string &input : producer->inputs)
        if (!input.empty() && !liveness.isLive(input))
          stack.push_back(input);
  }
  for (int64_t threshold : thresholds)
    bindings.push_back({1, threshold + 2});
  if (binding.sequence <= kEvaluatedSequence)
    bindings.push_back({1, binding.sequence});
  return bindings;
}

std::optional<Mask> MaskClassifier::classify(StringRef value, std::string &error) {
  std::vector<TensorRef> tensors;
  for (Binding size : bindingsFor(value)) {
    Evaluator evaluator(model, liveness, size);
    tensors.push_back(evaluator.valueOf(value));
    if (!tensors.back()) {
      error = "mask '" + value.str() + "' cannot be evaluated: " + evaluator.error();
      return std::nullopt;
    }
  }
  std::optional<Mask> mask = formulaOf(value, tensors, /*trueIsVisible=*/true, error);
  std::string other; // a condition may as well say what is hidden
  if (!mask && tensors.front()->storage() == HostTensor::Storage::Bits)
    mask = formulaOf(value, tensors, /*trueIsVisible=*/false, other);
  if (mask)
    error.clear();
  return mask;
}

} // namespace ztc::importer
