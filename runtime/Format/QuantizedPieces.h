// Weights in fewer bits that a plan describes part by part (plan::WeightSource::Codes), as those of an ONNX graph,
// whose parts have no names that say what they are.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Format/QuantizedMatrix.h"
#include <span>

namespace ztc {

/// Whether the parts fit one another and make a weight of `shape` of `codeBytes` bytes; fails with the first that does
/// not. Looks at no file.
Status checkCodes(const plan::WeightSource::Codes &codes, std::span<const int64_t> shape, uint64_t codeBytes);

/// The bytes that the parts have in their files.
struct QuantizedPieces {
  std::span<const std::byte> codes, scales, zeros;
};

/// The weight, of parts that checkCodes() has found to fit; the spans have the lengths that `codes` says.
QuantizedMatrix matrixOf(const plan::WeightSource::Codes &codes, std::string name, const QuantizedPieces &pieces);

} // namespace ztc
