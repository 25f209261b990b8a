// How, and in what numbers, a model is trained. Command line, pass options and IR name them by words, parsed once.
#pragma once
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace ztc {

/// The words of an enum, in the order of its values; each enum here has a specialisation.
template <typename Enum> inline constexpr std::array<std::string_view, 0> kWords{};

/// The word of a value.
template <typename Enum> std::string wordOf(Enum value) {
  return std::string(kWords<Enum>[size_t(value)]);
}
/// The value of a word; none for any other text.
template <typename Enum> std::optional<Enum> fromWord(std::string_view word) {
  for (size_t i = 0; i < kWords<Enum>.size(); ++i)
    if (kWords<Enum>[i] == word)
      return Enum(i);
  return std::nullopt;
}

/// What weights and activations are stored and computed in. Fp8: as Bf16, but products of the blocks read codes of 8
/// bits.
enum class StoragePrecision { Fp32, Bf16, Fp16, Fp8 };
template <> inline constexpr std::array<std::string_view, 4> kWords<StoragePrecision>{"fp32", "bf16", "fp16", "fp8"};

/// Whether weights and activations are stored in bf16.
constexpr bool storesBf16(StoragePrecision precision) {
  return precision == StoragePrecision::Bf16 || precision == StoragePrecision::Fp8;
}

/// The codes of cotangents in precision fp8: E5m2 has more range, E4m3 more digits.
enum class CotangentFormat { E5m2, E4m3 };
template <> inline constexpr std::array<std::string_view, 2> kWords<CotangentFormat>{"e5m2", "e4m3"};

/// Where the scales of activations and cotangents in precision fp8 come from: from the matrix itself, or from the step
/// before.
enum class Fp8Scaling { Dynamic, Delayed };
template <> inline constexpr std::array<std::string_view, 2> kWords<Fp8Scaling>{"dynamic", "delayed"};

/// What the optimizer's states are stored in. Int8: codes with a scale for each 256 elements.
enum class StateFormat { Fp32, Bf16, Int8 };
template <> inline constexpr std::array<std::string_view, 3> kWords<StateFormat>{"fp32", "bf16", "int8"};

/// What is kept beside a bf16 weight, so that small updates are not lost.
enum class MasterFormat { Fp32, None };
template <> inline constexpr std::array<std::string_view, 2> kWords<MasterFormat>{"fp32", "none"};

/// When the optimizer updates a bucket: after the micro-steps, or as soon as its gradient is complete.
enum class UpdateTime { After, InBackward };
template <> inline constexpr std::array<std::string_view, 2> kWords<UpdateTime>{"after", "in-backward"};

/// Who updates what lies in the host's memory: its cores, or the device, through which it streams. Auto: who is faster.
enum class UpdatePlace { Auto, Host, Device };
template <> inline constexpr std::array<std::string_view, 3> kWords<UpdatePlace>{"auto", "host", "device"};

/// Of muon: how a matrix' shape changes its learning rate, as torch.optim.Muon's adjust_lr_fn. MatchRmsAdamw: so that
/// its changes are as large as adamw's.
enum class AdjustLr { MatchRmsAdamw, Original };
template <> inline constexpr std::array<std::string_view, 2> kWords<AdjustLr>{"match_rms_adamw", "original"};

/// Whether gathered parameters, or the fp8 codes of weights, are kept over micro-steps and from forward to backward.
/// Auto: as many as a budget has room for, without one none.
enum class Keeping { Auto, None, All };
template <> inline constexpr std::array<std::string_view, 3> kWords<Keeping>{"auto", "none", "all"};

/// What the frozen weights of linear modules are stored in; Plain: as all others. The numbers are those of
/// #graph.weight_format.
enum class FrozenFormat { Plain, Nf4, Int8, Nf4Single, Mxfp4 };
template <>
inline constexpr std::array<std::string_view, 5> kWords<FrozenFormat>{"", "nf4", "int8", "nf4_single", "mxfp4"};

/// Which weights are trained: all, or an adapter beside them, where the model is in 4 bits or not. Auto asks for the
/// first that fits.
enum class TrainingMethod { Full, Lora, Qlora, Auto };
template <> inline constexpr std::array<std::string_view, 4> kWords<TrainingMethod>{"full", "lora", "qlora", "auto"};

} // namespace ztc
