// First values of the parameters.
#pragma once
#include "runtime/Checkpoint/StateMemory.h"
#include "runtime/Core/Status.h"
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace ztc {

struct WeightOptions {
  std::string weights; ///< --weights: a safetensors file or Hugging Face folder; overrides the plan's sources
  std::string adapter; ///< --adapter: a PEFT folder, in place of the plan's first values of an adapter
  std::optional<double>
      initDeviation; ///< --init=normal:STD; used where `weights` is empty, instead of the plan's sources
  uint64_t seed = 0;
  uint32_t threads = 1;   ///< that make random numbers
  std::string planFolder; ///< where sources are looked for that their own paths do not lead to: relative ones, and
                          ///< absolute ones by their name
};

/// Fails early and with all names at once where a parameter has no source, or its file is missing or has another size.
/// Reads no tensor data.
Status checkWeights(const plan::Plan &plan, const WeightOptions &options);

/// Fills every parameter, as far as this rank's slots hold it: converted to f32 from f32, bf16, f16 or f64 and
/// transposed where the source says so; with initDeviation from (seed, name, index): two or more dimensions normal, one
/// dimension 0 for biases and 1 for the rest (norms). Values do not depend on the number of ranks.
/// Ranks that would load different models are refused.
Status loadWeights(const StateContext &context, const WeightOptions &options);

/// Makes elements [begin, begin + count) of one parameter as f32.
using ElementSource = std::function<Status(uint64_t begin, uint64_t count, float *out)>;
/// Gives each parameter of a model its source, in the checkpoint's orientation; the file behind it stays open.
using ModelSource = std::function<StatusOr<ElementSource>(const plan::Parameter &)>;

/// The error of a checkpoint that has a parameter in fewer bits alone, where the full weight is asked for.
Status lacksFullWeight(const plan::Parameter &parameter);

/// The frozen model beside an adapter, as loadWeights() takes it: of a weight in fewer bits the numbers that it is
/// multiplied by, or, where `original`, those that the bits were made of.
StatusOr<ModelSource> openFrozenModel(const plan::Plan &plan, const WeightOptions &options, bool original);

/// Which frozen model an adapter is trained beside: where its weights are, and a checksum of samples of each.
StatusOr<std::string> describeFrozenModel(const plan::Plan &plan, const WeightOptions &options);

} // namespace ztc
