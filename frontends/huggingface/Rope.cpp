#include "frontends/huggingface/Rope.h"
#include <algorithm>
#include <cmath>
#include <numbers>

namespace ztc::huggingface {
namespace {

/// Tables of more are never those of a model.
constexpr int64_t kMostDimensions = 65536;

/// base^(2i / width) in f32, as PyTorch's pow of a number and an f32 tensor.
std::vector<float> powers(double base, int64_t width) {
  std::vector<float> result;
  for (int64_t i = 0; i < width; i += 2)
    result.push_back(float(std::pow(double(float(base)), double(float(i) / float(width)))));
  return result;
}

std::vector<float> inverse(double base, int64_t width) {
  std::vector<float> result = powers(base, width);
  for (float &value : result)
    value = 1.0f / value;
  return result;
}

/// arXiv:2407.21783, section 3.4.3: long waves are stretched, short ones stay, between them a blend.
void stretchLlama3(Rope &rope, double factor, double low, double high, double original) {
  float longWave = float(original / low), shortWave = float(original / high);
  for (float &frequency : rope.frequencies) {
    float wave = float(2 * std::numbers::pi) / frequency;
    if (wave > longWave) {
      frequency /= float(factor);
    } else if (wave >= shortWave && high != low) {
      float smooth = (float(original) / wave - float(low)) / float(high - low);
      frequency = (1 - smooth) * frequency / float(factor) + smooth * frequency;
    }
  }
}

struct Yarn {
  double factor, fast, slow, original;
  bool truncate;
};

/// arXiv:2309.00071, section 3.2.
void stretchYarn(Rope &rope, const Yarn &yarn) {
  double width = double(rope.width);
  auto dimensionOf = [&](double rotations) {
    return width * std::log(yarn.original / (rotations * 2 * std::numbers::pi)) / (2 * std::log(rope.theta));
  };
  double low = dimensionOf(yarn.fast), high = dimensionOf(yarn.slow);
  if (yarn.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, width - 1);
  if (low == high)
    high += 0.001; // no singularity
  std::vector<float> waves = powers(rope.theta, rope.width);
  for (size_t i = 0; i < waves.size(); ++i) {
    float ramp = std::clamp((float(i) - float(low)) / float(high - low), 0.0f, 1.0f), kept = 1 - ramp;
    rope.frequencies[i] = 1.0f / (float(yarn.factor) * waves[i]) * (1 - kept) + 1.0f / waves[i] * kept;
  }
}

double magnitude(double factor, double scale) {
  return factor <= 1 ? 1 : 0.1 * scale * std::log(factor) + 1;
}

/// Reads the parameters of one kind.
class Reader {
public:
  Reader(Config &config, const RopeContext &context, bool isNested)
      : config(config), context(context), isNested(isNested) {}

  Rope read(const std::string &type) {
    rope.theta = config.optionalNumber("rope_theta", context.theta).value_or(context.theta);
    double part = config.optionalNumber("partial_rotary_factor", context.partialFactor).value_or(1);
    // An odd number has one frequency more than it has pairs, and with it turns one dimension more (GPT-NeoX).
    int64_t dimensions = int64_t(double(context.headWidth) * part);
    rope.width = dimensions + dimensions % 2;
    rope.divisor = dimensions;
    if (rope.theta <= 0 || part <= 0 || part > 1 || dimensions < 2 || rope.width > context.headWidth) {
      config.fail("rope_theta " + std::to_string(rope.theta) + " and partial_rotary_factor " + std::to_string(part) +
                  " of heads of " + std::to_string(context.headWidth) + " give no rotation");
      return {};
    }
    if (dimensions > kMostDimensions) {
      config.fail("heads of " + std::to_string(context.headWidth) + " turn in " + std::to_string(dimensions) +
                  " dimensions; ztc builds " + std::to_string(kMostDimensions) + " at most");
      return {};
    }
    if (type == "proportional")
      return proportional(part);
    rope.frequencies = inverse(rope.theta, dimensions);
    original = double(context.original.value_or(
        config.optionalInteger("original_max_position_embeddings", context.positions).value_or(context.positions)));
    if (context.readsQueryScale) {
      rope.queryScaleBeta = config.optionalNumber("llama_4_scaling_beta", 0.0).value_or(0);
      rope.queryScaleFrom = original;
    }
    if (type == "default" || type == "mrope") // of text alone all parts of mrope are alike
      return rope;
    if (type == "linear")
      linear();
    else if (type == "dynamic")
      dynamic();
    else if (type == "llama3")
      llama3();
    else if (type == "yarn")
      yarn();
    else if (type == "longrope")
      longrope();
    else
      config.fail("rotary embedding '" + type +
                  "' is not one that ztc knows: default, linear, dynamic, llama3, yarn, "
                  "longrope, proportional");
    return rope;
  }

private:
  double needed(const char *key) {
    std::optional<double> value = config.optionalNumber(key, std::nullopt);
    if (value && *value > 0)
      return *value;
    config.fail(std::string("the rotary embedding needs ") + key + " above 0");
    return 1;
  }

  /// All dimensions have a partner at half of the head; those of the last pairs stand still, and the others'
  /// frequencies are fractions of the whole head.
  Rope proportional(double part) {
    const int64_t turning = int64_t(part * double(context.headWidth) / 2);
    if (context.headWidth % 2) {
      config.fail("the proportional rotary embedding needs heads of an even size, and they are " +
                  std::to_string(context.headWidth));
      return rope;
    }
    const double factor = config.has("factor") ? needed("factor") : 1;
    rope.width = rope.divisor = context.headWidth;
    rope.frequencies = inverse(rope.theta, rope.width);
    for (int64_t i = 0; i < rope.width / 2; ++i)
      rope.frequencies[size_t(i)] = i < turning ? rope.frequencies[size_t(i)] / float(factor) : 0;
    rope.reach = factor > 1 ? int64_t(factor * double(context.positions)) : 0;
    return rope;
  }

  void linear() {
    double factor = needed("factor");
    rope.reach = int64_t(factor * double(context.positions));
    for (float &frequency : rope.frequencies)
      frequency /= float(factor);
  }

  void dynamic() {
    double alpha = context.readsAlpha ? config.optionalNumber("alpha", 0.0).value_or(0) : 0;
    if (alpha > 0) {
      double width = double(rope.divisor);
      rope.frequencies = inverse(rope.theta * std::pow(alpha, width / (width - 2)), rope.divisor);
      return;
    }
    rope.dynamicFactor = needed("factor");
    rope.longFrom = context.positions;
    rope.reach = int64_t(rope.dynamicFactor * double(context.positions));
    if (rope.divisor < 3)
      config.fail("the dynamic rotary embedding needs at least 3 dimensions that turn");
  }

  void llama3() {
    double factor = needed("factor"), low = needed("low_freq_factor"), high = needed("high_freq_factor");
    stretchLlama3(rope, factor, low, high, original);
    rope.reach = int64_t(factor * original);
  }

  void yarn() {
    if (rope.divisor != rope.width)
      return config.fail("yarn needs an even number of dimensions that turn, and partial_rotary_factor makes " +
                         std::to_string(rope.divisor) + " of heads of " + std::to_string(context.headWidth));
    double factor = config.isNull("factor") ? double(context.positions) / original : needed("factor");
    std::optional<double> given = config.optionalNumber("attention_factor", std::nullopt);
    double scale = config.optionalNumber("mscale", 0.0).value_or(0),
           allScale = config.optionalNumber("mscale_all_dim", 0.0).value_or(0);
    rope.scale = given               ? *given
                 : scale && allScale ? magnitude(factor, scale) / magnitude(factor, allScale)
                                     : magnitude(factor, 1);
    auto orElse = [&](const char *key, double otherwise) {
      double value = config.optionalNumber(key, 0.0).value_or(0);
      return value ? value : otherwise;
    };
    if (allScale)
      rope.scoreScale = magnitude(factor, allScale) * magnitude(factor, allScale);
    double fast = orElse("beta_fast", 32), slow = orElse("beta_slow", 1);
    bool truncate = config.flag("truncate", true);
    rope.reach = int64_t(factor * original);
    stretchYarn(rope, {factor, fast, slow, original, truncate || isNested});
  }

  void longrope() {
    std::vector<double> shorter = config.numbers("short_factor"), longer = config.numbers("long_factor");
    size_t wanted = rope.frequencies.size();
    auto isPositive = [](double x) { return x > 0; };
    if (shorter.size() != wanted || longer.size() != wanted ||
        !std::all_of(shorter.begin(), shorter.end(), isPositive) ||
        !std::all_of(longer.begin(), longer.end(), isPositive)) {
      config.fail("longrope needs short_factor and long_factor, " + std::to_string(wanted) + " numbers above 0 each");
      return;
    }
    double factor = config.optionalNumber("factor", std::nullopt).value_or(double(context.positions) / original);
    std::optional<double> given = config.optionalNumber("attention_factor", std::nullopt);
    rope.scale = given ? *given : factor <= 1 ? 1 : std::sqrt(1 + std::log(factor) / std::log(original));
    if (context.readsMagnitudes) {
      rope.scale = needed("short_mscale");
      if (needed("long_mscale") != rope.scale)
        config.fail("short_mscale and long_mscale differ, which ztc does not build");
    }
    std::vector<float> waves = powers(rope.theta, rope.divisor);
    for (size_t i = 0; i < wanted; ++i) {
      rope.frequencies[i] = 1.0f / (float(shorter[i]) * waves[i]);
      rope.longFrequencies.push_back(1.0f / (float(longer[i]) * waves[i]));
    }
    rope.longFrom = int64_t(original);
  }

  Config &config;
  const RopeContext &context;
  bool isNested;
  Rope rope;
  double original = 0;
};

} // namespace

Rope ropeOf(Config &owner, std::optional<Config> parameters, const RopeContext &context, bool isNested) {
  Config own = std::move(parameters).value_or(owner.withoutKeys());
  std::string old = own.text("type", "default"), type = own.text("rope_type", old);
  if (context.yarnIsLongrope && (type == "su" || type == "yarn"))
    type = "longrope";
  if (context.xdropeIsDynamic && type == "xdrope")
    type = "dynamic";
  Rope rope = Reader(own, context, isNested).read(type);
  owner.adopt(own);
  return rope;
}

Rope readRope(Config &config, const RopeContext &given) {
  RopeContext context = given;
  context.theta = config.optionalNumber("rope_theta", given.theta).value_or(given.theta);
  context.partialFactor =
      config.optionalNumber("partial_rotary_factor", given.partialFactor).value_or(given.partialFactor);
  if (config.has("original_max_position_embeddings"))
    context.original = config.optionalInteger("original_max_position_embeddings", given.original);
  std::optional<Config> parameters = config.child("rope_parameters"), scaling = config.child("rope_scaling");
  if (scaling)
    parameters = scaling;
  if (parameters && (parameters->has("full_attention") || parameters->has("sliding_attention")))
    config.fail("rope_parameters has a kind per layer type, which this model type does not read");
  return ropeOf(config, parameters, context, false);
}

} // namespace ztc::huggingface
