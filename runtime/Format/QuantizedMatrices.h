// Which weights of a checkpoint are stored in fewer bits and dequantised as they are loaded, by the names of the
// tensors that each is made of (QuantizedMatrix.h has the forms):
//
//   X, X_scale_inv               fp8 of transformers; a scale multiplies under this name too
//   X, X_scale [X_zero_point]    fp8 and int8 of compressed-tensors, ModelOpt and fbgemm
//   X_packed, X_scale [X_shape, X_zero_point, X_global_scale]   integers, mxfp4 and nvfp4 of compressed-tensors
//   X, X_scale, X_scale_2        nvfp4 of ModelOpt, codes as bytes
//   X_blocks, X_scales           mxfp4 of gpt-oss: experts, as transposed matrices
//   M.qweight, M.qzeros, M.scales [M.g_idx]                     GPTQ and AWQ of M.weight
#pragma once
#include "runtime/Format/QuantizedMatrix.h"
#include <map>
#include <set>
#include <string>
#include <string_view>

namespace ztc {

/// What quantization_config of a config.json says of how codes are read; the shapes of tensors tell the rest.
struct QuantizationConfig {
  std::string method;           ///< quant_method; empty: none
  std::string unsupported;      ///< why ztc does not read it: "the weights are quantised by 'hqq', ..."; empty: it does
  std::vector<int64_t> block;   ///< weight_block_size: rows and columns that share a scale; empty: shapes tell
  bool hasZerosLessOne = false; ///< GPTQ's first file format: what is stored is a zero less 1
  plan::DataType type = plan::BF16; ///< the type of the model, in which dequantised weights are exported
};

/// Of the text of a config.json; without a method where it has none, or is not JSON.
QuantizationConfig parseQuantizationConfig(std::string_view text);

/// Of the config.json beside weights: in the folder, or beside the file, that `weights` names.
QuantizationConfig quantizationConfigOf(const std::string &weights);

/// The weights in fewer bits of one checkpoint, by the names that a model gives them.
class QuantizedMatrices {
public:
  /// None at all.
  QuantizedMatrices() = default;
  /// Of `files`, which outlives this.
  QuantizedMatrices(const SafetensorsCollection &files, const QuantizationConfig &config);

  /// Null where there is none of this name.
  const QuantizedMatrix *find(std::string_view name) const;
  /// A parameter by its own name, or else by the first of its tied names that is there.
  const QuantizedMatrix *find(const plan::Parameter &parameter) const;
  /// Whether a tensor of the checkpoint is a part of one without a problem, or scales what one is multiplied with.
  bool isPart(std::string_view tensor) const;
  const std::map<std::string, QuantizedMatrix, std::less<>> &all() const { return matrices_; }

private:
  std::map<std::string, QuantizedMatrix, std::less<>> matrices_;
  std::set<std::string, std::less<>> parts_;
};

} // namespace ztc
