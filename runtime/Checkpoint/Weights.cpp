#include "runtime/Checkpoint/Weights.h"
#include "runtime/Checkpoint/Adapter.h"
#include "runtime/Checkpoint/FreshAdapter.h"
#include "runtime/Checkpoint/FreshWeights.h"
#include "runtime/Checkpoint/PlannedWeights.h"
#include "runtime/Checkpoint/QuantizedTensors.h"
#include "runtime/Checkpoint/TensorFiles.h"
#include "runtime/Checkpoint/TensorReader.h"
#include "runtime/Core/File.h"
#include "runtime/Core/ListText.h"
#include "runtime/Core/Sha256.h"
#include "runtime/Format/AdapterNames.h"
#include "runtime/Format/PlanValidator.h"
#include "runtime/Format/QuantizedWeight.h"
#include "runtime/Format/Safetensors.h"
#include "runtime/Ranks/Agreement.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <memory>
#include <set>

namespace ztc {

namespace {

using Parameters = std::vector<const plan::Parameter *>;

/// The frozen model's parameters, or those of the adapter; a plan without one has the former alone.
Parameters parametersOf(const plan::Plan &plan, bool adapter) {
  Parameters found;
  for (const plan::Parameter &parameter : plan.parameters())
    if (isOfAdapter(plan, parameter) == adapter)
      found.push_back(&parameter);
  return found;
}

/// Weights by name: --weights, --adapter.
class NamedWeights {
public:
  static StatusOr<NamedWeights> open(const std::string &path, const std::string &stem = "model") {
    const QuantizationConfig config = quantizationConfigOf(path);
    ZTC_ASSIGN_OR_RETURN(auto checkpoint, QuantizedCheckpoint::open(path, stem, config));
    return NamedWeights(std::move(checkpoint), path, config.unsupported);
  }

  Status check(const Parameters &parameters) const {
    std::vector<std::string> missing;
    for (const plan::Parameter *each : parameters) {
      const plan::Parameter &parameter = *each;
      ZTC_ASSIGN_OR_RETURN(const auto quantized, findQuantized(checkpoint_, parameter));
      if (quantized)
        continue;
      const std::optional<SafetensorsCollection::Found> found = find(parameter);
      if (!found) {
        missing.push_back(parameter.name());
        continue;
      }
      const SafetensorsTensor &tensor = *found->tensor;
      if (isQuantized(files(), tensor) && parameter.format() != plan::PLAIN)
        continue; // readQuantized looks at all of its parts
      const auto &shape = checkpointShape(parameter);
      if (!std::equal(tensor.shape.begin(), tensor.shape.end(), shape.begin(), shape.end()))
        return failedPrecondition(fmt::format("'{}': '{}' has the shape [{}], the model needs [{}]",
                                              found->file->path(), tensor.name, fmt::join(tensor.shape, ", "),
                                              fmt::join(shape, ", ")));
      if (!isLoadable(tensor.type))
        return failedPrecondition(fmt::format("'{}': '{}' has the type {}; F32, BF16, F16 and F64 can be loaded",
                                              found->file->path(), tensor.name, tensor.typeName));
    }
    if (!missing.empty())
      return notFound(fmt::format("'{}' lacks {} of the model's {} parameters: {}{}", path_, missing.size(),
                                  parameters.size(), listText(missing),
                                  unsupported_.empty() ? "" : fmt::format(" ({})", unsupported_)));
    return Status::ok();
  }

  /// After check().
  StatusOr<StoredTensor> stored(const plan::Parameter &parameter) const {
    ZTC_ASSIGN_OR_RETURN(const auto quantized, findQuantized(checkpoint_, parameter));
    if (quantized)
      return dequantized(quantized);
    const SafetensorsCollection::Found found = *find(parameter);
    return StoredTensor{found.file->data(*found.tensor),
                        isQuantized(files(), *found.tensor) ? plan::U8 : found.tensor->type};
  }

  std::optional<SafetensorsCollection::Found> find(const plan::Parameter &parameter) const {
    return files().find(parameter);
  }

  const SafetensorsCollection &files() const { return checkpoint_->files; }

private:
  NamedWeights(std::shared_ptr<const QuantizedCheckpoint> checkpoint, std::string path, std::string unsupported)
      : checkpoint_(std::move(checkpoint)), path_(std::move(path)), unsupported_(std::move(unsupported)) {}

  std::shared_ptr<const QuantizedCheckpoint> checkpoint_;
  std::string path_, unsupported_;
};

} // namespace

static Status initialize(const StateContext &context, double deviation, uint64_t seed, uint32_t threads) {
  ZTC_ASSIGN_OR_RETURN(const std::vector<FreshValues> values, freshValuesOf(context.plan));
  for (const plan::Parameter *parameter : parametersOf(context.plan, /*adapter=*/false))
    ZTC_RETURN_IF_ERROR(fillParameter(context, *parameter, StateKind::Model,
                                      freshElements(*parameter, values, deviation, seed, threads), threads));
  return Status::ok();
}

/// The elements of a tensor as they are loaded: shifted.
static ElementSource elementsOf(const StoredTensor &tensor, double shift) {
  return [=](uint64_t begin, uint64_t count, float *out) {
    readElements(tensor, begin, count, out);
    forgetElements(tensor, begin, count);
    if (shift != 0)
      std::transform(out, out + count, out, [&](float value) { return static_cast<float>(value + shift); });
    return Status::ok();
  };
}

/// The numbers of a parameter in fewer bits, in the checkpoint's order; `begin` is a multiple of kNf4Block.
static StatusOr<ElementSource> numbersOf(const plan::Parameter &parameter, std::vector<std::byte> bytes) {
  const std::optional<QuantizedLayout> layout = quantizedLayout(parameter);
  if (!layout || layout->bytes != bytes.size())
    return internalError(fmt::format("'{}' has no layout", parameter.name()));
  const auto kept = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  if (parameter.quantized_transposed()) {
    const uint64_t matrices = quantizedMatrices(parameter);
    const ElementReader stored = [&](uint64_t begin, uint64_t count, float *out) {
      dequantize(kept->data(), *layout, begin, count, out);
    };
    return ElementSource([turned = transposedReader(matrices, layout->rows / matrices, layout->columns, stored)](
                             uint64_t begin, uint64_t count, float *out) {
      turned(begin, count, out);
      return Status::ok();
    });
  }
  return ElementSource([layout = *layout, kept](uint64_t begin, uint64_t count, float *out) {
    dequantize(kept->data(), layout, begin, count, out);
    return Status::ok();
  });
}

/// What is multiplied where a weight is made of these elements.
static StatusOr<ElementSource> asMultiplied(const plan::Parameter &parameter, const ElementSource &full,
                                            uint32_t threads) {
  if (parameter.format() == plan::PLAIN)
    return full;
  const std::optional<QuantizedLayout> layout = quantizedLayout(parameter);
  if (!layout)
    return internalError(fmt::format("'{}' has no layout", parameter.name()));
  const ElementReader read = [&](uint64_t begin, uint64_t count, float *out) { (void)full(begin, count, out); };
  return numbersOf(parameter, quantize(*layout, quantizedReader(parameter, read), threads));
}

Status lacksFullWeight(const plan::Parameter &parameter) {
  return failedPrecondition(fmt::format("the checkpoint itself has '{}' in fewer bits: there are no other weights; "
                                        "name a full model with --weights",
                                        parameter.name()));
}

StatusOr<ModelSource> openFrozenModel(const plan::Plan &plan, const WeightOptions &options, bool original) {
  const auto inBits = [original](const plan::Parameter &parameter,
                                 const SafetensorsCollection &files) -> StatusOr<ElementSource> {
    if (original)
      return lacksFullWeight(parameter);
    ZTC_ASSIGN_OR_RETURN(std::vector<std::byte> bytes, readQuantized(files, parameter));
    return numbersOf(parameter, std::move(bytes));
  };
  const auto full = [original, threads = options.threads](const plan::Parameter &parameter,
                                                          const ElementSource &elements) -> StatusOr<ElementSource> {
    return original ? elements : asMultiplied(parameter, elements, threads);
  };
  if (!options.weights.empty()) {
    ZTC_ASSIGN_OR_RETURN(NamedWeights opened, NamedWeights::open(options.weights));
    const auto weights = std::make_shared<const NamedWeights>(std::move(opened));
    return ModelSource([=](const plan::Parameter &parameter) -> StatusOr<ElementSource> {
      ZTC_ASSIGN_OR_RETURN(const StoredTensor tensor, weights->stored(parameter));
      return tensor.type == plan::U8 ? inBits(parameter, weights->files()) : full(parameter, elementsOf(tensor, 0));
    });
  }
  if (options.initDeviation) {
    ZTC_ASSIGN_OR_RETURN(const std::vector<FreshValues> values, freshValuesOf(plan));
    return ModelSource([=, options = options](const plan::Parameter &parameter) {
      return full(parameter, freshElements(parameter, values, *options.initDeviation, options.seed, options.threads));
    });
  }
  ZTC_ASSIGN_OR_RETURN(PlannedWeights opened,
                       PlannedWeights::open(plan, parametersOf(plan, /*adapter=*/false), options.planFolder));
  const auto weights = std::make_shared<const PlannedWeights>(std::move(opened));
  return ModelSource([=](const plan::Parameter &parameter) -> StatusOr<ElementSource> {
    ZTC_ASSIGN_OR_RETURN(const StoredTensor tensor, weights->stored(parameter, /*check=*/false));
    if (tensor.type == plan::U8) {
      ZTC_ASSIGN_OR_RETURN(const auto checkpoint, weights->checkpointOf(parameter));
      return inBits(parameter, checkpoint->files);
    }
    const plan::WeightSource &source = parameter.source();
    return full(parameter, elementsOf(tensor, source.shift()));
  });
}

/// The configuration beside an adapter's tensors must mean what the plan computes.
static Status checkAdapterConfig(const plan::Plan &plan, const std::string &folder) {
  if (!isFolder(folder))
    return invalidArgument(fmt::format("--adapter={}: expected a folder as PEFT saves one", folder));
  const std::string path = folder + "/" + kAdapterConfigName;
  ZTC_ASSIGN_OR_RETURN(const std::string text, readWholeFile(path));
  ZTC_RETURN_IF_ERROR(parseAdapterConfig(text, path).status());
  const std::string difference = differenceOfAdapters(plan.adapter_config(), text);
  return difference.empty()
             ? Status::ok()
             : failedPrecondition(fmt::format("'{}': {}; compile with --adapter={}", path, difference, folder));
}

/// Tensors of the adapter at `folder` for which the plan has no place.
static Status checkAllUsed(const plan::Plan &plan, const SafetensorsCollection &files, const std::string &folder) {
  std::set<std::string> known;
  for (const plan::Parameter *parameter : parametersOf(plan, /*adapter=*/true))
    known.insert(parameter->name());
  std::vector<std::string> unread;
  for (const auto &file : files.files())
    for (const SafetensorsTensor &tensor : file->tensors())
      if (!known.contains(tensor.name) && !isBesideFactors(tensor.name))
        unread.push_back(tensor.name);
  return unread.empty() ? Status::ok()
                        : failedPrecondition(fmt::format("'{}' has {}, which the plan does not train; compile with "
                                                         "--adapter={}",
                                                         folder, listText(unread), folder));
}

static Status checkAdapter(const plan::Plan &plan, const WeightOptions &options) {
  if (options.adapter.empty())
    return PlannedWeights::open(plan, parametersOf(plan, /*adapter=*/true), options.planFolder).status();
  if (!trainsAdapter(plan))
    return failedPrecondition(fmt::format(
        "--adapter={}: the plan trains the whole model; compile it with --adapter or --lora", options.adapter));
  ZTC_RETURN_IF_ERROR(checkAdapterConfig(plan, options.adapter));
  ZTC_ASSIGN_OR_RETURN(const NamedWeights weights, NamedWeights::open(options.adapter, kAdapterStem));
  ZTC_RETURN_IF_ERROR(weights.check(parametersOf(plan, /*adapter=*/true)));
  return checkAllUsed(plan, weights.files(), options.adapter);
}

Status checkWeights(const plan::Plan &plan, const WeightOptions &options) {
  ZTC_RETURN_IF_ERROR(checkStateTypes(plan));
  ZTC_RETURN_IF_ERROR(checkAdapter(plan, options));
  const Parameters model = parametersOf(plan, /*adapter=*/false);
  if (!options.weights.empty()) {
    ZTC_ASSIGN_OR_RETURN(const NamedWeights weights, NamedWeights::open(options.weights));
    return weights.check(model);
  }
  if (options.initDeviation)
    return freshValuesOf(plan).status();
  return PlannedWeights::open(plan, model, options.planFolder).status();
}
/// Takes some bytes from all over a tensor: enough to tell one model from another, and it reads little.
static void takeSample(Sha256 &sample, const StoredTensor &tensor) {
  constexpr uint64_t kPieces = 4, kPieceBytes = 256;
  const uint64_t numbers[] = {tensor.data.size(), uint64_t(tensor.type), uint64_t(tensor.transposed)};
  sample.update(numbers, sizeof numbers);
  const uint64_t piece = std::min<uint64_t>(kPieceBytes, tensor.data.size()), last = tensor.data.size() - piece;
  for (uint64_t i = 0; i < kPieces; ++i)
    sample.update(tensor.data.data() + last / (kPieces - 1) * i, piece);
}

/// What begins as numbers of the frozen model: magnitudes of DoRA, rows of a table.
static bool beginsAsModel(const plan::Parameter &parameter) {
  return parameter.source().path().empty() && (isMagnitude(parameter) || isTokenRows(parameter));
}

static Status loadFromModel(const StateContext &context, const plan::Parameter &parameter, const ModelSource &model,
                            const WeightOptions &options) {
  ZTC_ASSIGN_OR_RETURN(const std::vector<float> values, isMagnitude(parameter)
                                                            ? freshMagnitude(context.plan, parameter, model, options)
                                                            : freshTokenRows(context.plan, parameter, model));
  return fillParameter(
      context, parameter, StateKind::Model,
      [&](uint64_t begin, uint64_t count, float *out) {
        std::copy_n(values.begin() + int64_t(begin), count, out);
        return Status::ok();
      },
      options.threads);
}

namespace {
/// A parameter in fewer bits and the codes that it is made of, described alike.
struct StoredBytes {
  plan::Parameter parameter;
  StoredTensor tensor;
};
} // namespace

/// Where both are of the transposed matrices, what they store of these: nothing is turned there and back.
static std::optional<StoredBytes> asBothStore(const plan::Parameter &parameter, const StoredTensor &tensor) {
  if (!tensor.quantized || !tensor.quantized->isTransposed || !parameter.quantized_transposed())
    return std::nullopt;
  StoredBytes alike{parameter, tensor};
  alike.parameter.set_quantized_transposed(false);
  const int last = parameter.quantized_shape_size() - 1;
  alike.parameter.mutable_quantized_shape()->SwapElements(last - 1, last);
  const auto stored = std::make_shared<std::pair<std::shared_ptr<const QuantizedMatrix>, QuantizedMatrix>>(
      tensor.quantized, *tensor.quantized); // the first keeps the file mapped
  stored->second.isTransposed = false;
  std::swap(stored->second.shape[size_t(last - 1)], stored->second.shape[size_t(last)]);
  alike.tensor.quantized = {stored, &stored->second};
  return alike;
}

/// `sample` takes from every tensor, also where this rank holds no part of it.
static Status loadOwn(const StateContext &context, const WeightOptions &options, Sha256 &sample) {
  ZTC_RETURN_IF_ERROR(checkStateTypes(context.plan));
  const auto load = [&](const plan::Parameter &parameter, const StoredTensor &tensor, double shift) {
    takeSample(sample, tensor);
    const std::optional<StoredBytes> alike = asBothStore(parameter, tensor);
    const ElementSource elements = elementsOf(alike ? alike->tensor : tensor, shift);
    return fillParameter(
        context, alike ? alike->parameter : parameter, StateKind::Model,
        [&](uint64_t begin, uint64_t count, float *out) {
          ZTC_RETURN_IF_ERROR(elements(begin, count, out));
          // Such a model trains to nothing, or spoils itself later than anybody looks.
          const float *bad = std::find_if(out, out + count, [](float value) { return !std::isfinite(value); });
          if (bad != out + count)
            return dataLoss(
                fmt::format("weight '{}' holds {} (element {}): a model that has diverged, or a file that is "
                            "only in part what was written",
                            parameter.name(), *bad, begin + uint64_t(bad - out)));
          return Status::ok();
        },
        options.threads);
  };
  /// Of weights that are in fewer bits in their file.
  const auto loadBytes = [&](const plan::Parameter &parameter, const StoredTensor &tensor,
                             const SafetensorsCollection &files) -> Status {
    takeSample(sample, tensor);
    ZTC_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, readQuantized(files, parameter));
    return fillBytes(context, parameter, bytes);
  };
  uint64_t index = 0;
  std::optional<ModelSource> frozen; // where an adapter begins with numbers of it
  const auto loadPlanned = [&](const Parameters &parameters) -> Status {
    ZTC_ASSIGN_OR_RETURN(const PlannedWeights weights,
                         PlannedWeights::open(context.plan, parameters, options.planFolder));
    for (const plan::Parameter *parameter : parameters) {
      const plan::WeightSource &source = parameter->source();
      if (beginsAsModel(*parameter)) {
        if (!frozen) {
          ZTC_ASSIGN_OR_RETURN(frozen, openFrozenModel(context.plan, options, /*original=*/false));
        }
        ZTC_RETURN_IF_ERROR(loadFromModel(context, *parameter, *frozen, options));
        continue;
      }
      if (source.path().empty()) {
        ZTC_RETURN_IF_ERROR(
            fillParameter(context, *parameter, StateKind::Model, [&](uint64_t begin, uint64_t count, float *out) {
              fillFresh(*parameter, options.seed, begin, count, out, options.threads);
              return Status::ok();
            }));
        continue;
      }
      // A rank reads its range of every tensor; the whole of one is checked by one rank.
      const bool check = index++ % context.world() == context.rank();
      ZTC_ASSIGN_OR_RETURN(const StoredTensor tensor, weights.stored(*parameter, check));
      if (tensor.type == plan::U8) {
        ZTC_ASSIGN_OR_RETURN(const auto checkpoint, weights.checkpointOf(*parameter));
        ZTC_RETURN_IF_ERROR(loadBytes(*parameter, tensor, checkpoint->files));
        continue;
      }
      ZTC_RETURN_IF_ERROR(load(*parameter, tensor, source.shift()));
    }
    return Status::ok();
  };
  const auto loadNamed = [&](const Parameters &parameters, const NamedWeights &weights) -> Status {
    ZTC_RETURN_IF_ERROR(weights.check(parameters));
    for (const plan::Parameter *parameter : parameters) {
      ZTC_ASSIGN_OR_RETURN(const StoredTensor tensor, weights.stored(*parameter));
      ZTC_RETURN_IF_ERROR(tensor.type == plan::U8 ? loadBytes(*parameter, tensor, weights.files())
                                                  : load(*parameter, tensor, 0));
    }
    return Status::ok();
  };
  const Parameters model = parametersOf(context.plan, /*adapter=*/false),
                   adapter = parametersOf(context.plan, /*adapter=*/true);
  if (!options.weights.empty()) {
    ZTC_ASSIGN_OR_RETURN(const NamedWeights weights, NamedWeights::open(options.weights));
    ZTC_RETURN_IF_ERROR(loadNamed(model, weights));
  } else if (options.initDeviation) {
    ZTC_RETURN_IF_ERROR(initialize(context, *options.initDeviation, options.seed, options.threads));
  } else {
    ZTC_RETURN_IF_ERROR(loadPlanned(model));
  }
  if (options.adapter.empty())
    return loadPlanned(adapter);
  ZTC_ASSIGN_OR_RETURN(const NamedWeights weights, NamedWeights::open(options.adapter, kAdapterStem));
  return loadNamed(adapter, weights);
}

StatusOr<std::string> describeFrozenModel(const plan::Plan &plan, const WeightOptions &options) {
  const Parameters model = parametersOf(plan, /*adapter=*/false);
  Sha256 sample;
  std::string place = options.weights;
  if (!options.weights.empty()) {
    ZTC_ASSIGN_OR_RETURN(const NamedWeights weights, NamedWeights::open(options.weights));
    ZTC_RETURN_IF_ERROR(weights.check(model));
    for (const plan::Parameter *parameter : model) {
      ZTC_ASSIGN_OR_RETURN(const StoredTensor tensor, weights.stored(*parameter));
      takeSample(sample, tensor);
    }
  } else if (options.initDeviation) {
    return fmt::format("random, normal:{}, seed {}", *options.initDeviation, options.seed);
  } else {
    ZTC_ASSIGN_OR_RETURN(const PlannedWeights weights, PlannedWeights::open(plan, model, options.planFolder));
    for (const plan::Parameter *parameter : model) {
      ZTC_ASSIGN_OR_RETURN(const StoredTensor tensor, weights.stored(*parameter, /*check=*/false));
      takeSample(sample, tensor);
      if (place.empty())
        place = parentFolder(parameter->source().path());
    }
  }
  const auto stored =
      std::ranges::find_if(model, [](const plan::Parameter *parameter) { return parameter->format() != plan::PLAIN; });
  return fmt::format("{}, {}{}", place, Sha256::hex(sample.finish()).substr(0, 16),
                     stored == model.end() ? "" : fmt::format(", {}", weightFormatName((*stored)->format())));
}

Status loadWeights(const StateContext &context, const WeightOptions &options) {
  Sha256 sample;
  ZTC_RETURN_IF_ERROR(agree(context.control, "weights loaded", loadOwn(context, options, sample)));
  const std::string mine = Sha256::hex(sample.finish());
  ZTC_ASSIGN_OR_RETURN(const std::string first, fromFirstRank(context.control, "weights of rank 0", mine));
  return agree(context.control, "weights alike",
               mine == first ? Status::ok()
                             : failedPrecondition(fmt::format(
                                   "the weights {} are not those that rank 0 loaded: all ranks need the same files",
                                   options.weights.empty() ? "that the plan names" : "in '" + options.weights + "'")));
}

} // namespace ztc
