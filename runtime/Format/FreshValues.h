// Parameters that are not drawn as all others are where a model begins without weights: a text of the plan's options.
#pragma once
#include "runtime/Core/Status.h"
#include <string>
#include <string_view>
#include <vector>

namespace ztc {

/// What parameters begin with whose names end with `name`, in the checkpoint's orientation.
struct FreshValues {
  enum class Kind {
    Constant,   ///< `numbers[0]`
    Uniform,    ///< between numbers[0] and numbers[1]
    LogCount,   ///< log(1), log(2), log(3), ... along the last dimension
    LogUniform, ///< logarithms of numbers that are uniform between numbers[0] and numbers[1]
    /// softplus of it is a step of Mamba (arXiv:2312.00752, section 3.6): its logarithm is uniform between those of
    /// numbers[0] and numbers[1], and it is numbers[2] at least.
    Step,
    Normal, ///< about 0, with the deviation numbers[0]
    /// exp(-softplus) of it is what a recurrence decays by (arXiv:2402.19427, section 2.4), whose square is uniform
    /// between numbers[0] and numbers[1], below 1.
    Decay,
  };
  std::string name; ///< one part of a parameter's name or more: "A_log", "conv1d.weight"
  Kind kind = Kind::Constant;
  std::vector<double> numbers;
};

/// Whether `end` is a whole name of a parameter, or what follows a point of it: those that FreshValues::name means.
bool endsWithParts(std::string_view name, std::string_view end);

/// Option of a plan that has the text.
inline constexpr std::string_view kFreshValues = "fresh-values";

/// "A_log=log-count;dt_bias=step(0.001,0.1,0.0001)".
std::string printFreshValues(const std::vector<FreshValues> &values);

/// The way back. Fails where the text is not of this form, or numbers do not suit the kind.
StatusOr<std::vector<FreshValues>> parseFreshValues(std::string_view text);

} // namespace ztc
