#include "runtime/Checkpoint/FreshWeights.h"
#include "runtime/Checkpoint/TensorFiles.h"
#include "runtime/Core/Random.h"
#include <algorithm>
#include <cmath>

namespace ztc {

StatusOr<std::vector<FreshValues>> freshValuesOf(const plan::Plan &plan) {
  const auto found = plan.options().find(std::string(kFreshValues));
  return found == plan.options().end() ? std::vector<FreshValues>() : parseFreshValues(found->second);
}

/// Of a range that begins at 0, which has no logarithm.
static constexpr double kLeastRate = 1e-9;

/// The inverse of softplus, log(exp(x) - 1), without its overflow.
static double beforeSoftplus(double x) {
  return x + std::log(-std::expm1(-x));
}

/// What a number that is uniform in [0, 1] becomes.
static double drawn(const FreshValues &values, double uniform) {
  const std::vector<double> &n = values.numbers;
  if (values.kind == FreshValues::Kind::Uniform)
    return n[0] + (n[1] - n[0]) * uniform;
  if (values.kind == FreshValues::Kind::LogUniform)
    return std::log(std::max(n[0] + (n[1] - n[0]) * uniform, kLeastRate));
  if (values.kind == FreshValues::Kind::Decay)
    return beforeSoftplus(-0.5 * std::log(n[0] + (n[1] - n[0]) * uniform));
  const double least = std::log(n[0]), most = std::log(n[1]);
  return beforeSoftplus(std::max(std::exp(least + (most - least) * uniform), n[2]));
}

static ElementSource elementsOf(const FreshValues &values, uint64_t seed, uint64_t stream, uint64_t last,
                                uint32_t threads) {
  switch (values.kind) {
  case FreshValues::Kind::Constant:
    return [value = float(values.numbers[0])](uint64_t, uint64_t count, float *out) {
      std::fill_n(out, count, value);
      return Status::ok();
    };
  case FreshValues::Kind::LogCount:
    return [last](uint64_t begin, uint64_t count, float *out) {
      for (uint64_t i = 0; i < count; ++i)
        out[i] = float(std::log(double((begin + i) % last + 1)));
      return Status::ok();
    };
  case FreshValues::Kind::Normal:
    return [=, deviation = float(values.numbers[0])](uint64_t begin, uint64_t count, float *out) {
      fillNormal(out, count, deviation, seed, stream, begin, threads);
      return Status::ok();
    };
  default:
    return [values, seed, stream](uint64_t begin, uint64_t count, float *out) {
      fillUniform(out, count, 1, seed, stream, begin);
      std::transform(out, out + count, out, [&](float x) { return float(drawn(values, (double(x) + 1) / 2)); });
      return Status::ok();
    };
  }
}

ElementSource freshElements(const plan::Parameter &parameter, const std::vector<FreshValues> &values, double deviation,
                            uint64_t seed, uint32_t threads) {
  const uint64_t stream = hashName(parameter.name());
  const auto &shape = checkpointShape(parameter);
  for (auto one = values.rbegin(); one != values.rend(); ++one)
    if (endsWithParts(parameter.name(), one->name))
      return elementsOf(*one, seed, stream, shape.empty() ? 1 : uint64_t(*shape.rbegin()), threads);
  const bool random = shape.size() >= 2;
  // Where the model adds 1 to it, as norms of some families do, it begins at 0.
  const float constant = parameter.name().ends_with("bias") ? 0.0f : 1.0f + float(parameter.source().shift());
  return [=](uint64_t begin, uint64_t count, float *out) {
    if (random)
      fillNormal(out, count, static_cast<float>(deviation), seed, stream, begin, threads);
    else
      std::fill_n(out, count, constant);
    return Status::ok();
  };
}

} // namespace ztc
