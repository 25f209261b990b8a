// A frozen matrix in fewer bits, with the numbers that bitsandbytes, or of mxfp4 the OCP's specification, gives it.
//
// nf4 (QLoRA, arXiv:2305.14314, with double quantisation): blocks of 64 elements of the matrix in row-major order. An
// element is 4 bits, the index of a normal float in a map of 16, first element of a byte in the high half; its block
// has a scale, the greatest magnitude in it. Scales less their mean are 8 bits each, indices in a dynamic map of 256,
// in blocks of 256 scales that have an f32 scale of their own:
//   scale = map256[scaleCode[block]] * nestedScale[block / 256] + mean,  element = map16[code] * scale,
// each product and sum rounded to f32. The last block of each kind may be short.
//
// nf4_single (single quantisation, what bitsandbytes does unless it is asked for the other): the same codes, and the
// scales are f32 as they are: element = map16[code] * scale[block].
//
// Where rows are multiples of 16 and not of 64, bitsandbytes on a processor with AVX-512 takes other scales than those
// that it stored (up to 0.50 at least): that of block row * (columns / 64) + column / 64. A matrix of that shape has
// these numbers here too; as one row, [1, elements], it has those of its own blocks. Models' matrices have rows of
// multiples of 64.
//
// A matrix that a checkpoint has as (inputs, outputs), GPT-2's Conv1D, is stored as (outputs, inputs) in each of these.
//
// mxfp4 (OCP Microscaling Formats 1.0, 6.3): blocks of 32 elements in row-major order. An element is 4 bits, the index
// of a number of e2m1 in a map of 16, first element of a byte in the high half; its block has a power of two in a byte,
// the exponent of an f32: that of the greatest magnitude less that of 4, the greatest power of e2m1. Numbers that are
// of this form already stay what they are.
//
// int8 (LLM.int8(), arXiv:2208.07339, its weights alone): a signed byte an element, a scale for each row, the greatest
// magnitude in it: element = code * scale * (1 / 127), each product rounded to f32.
#pragma once
#include "runtime/Format/plan.pb.h"
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ztc {

inline constexpr uint64_t kNf4Block = 64, kNestedBlock = 256, kNestedMap = 256, kNf4Map = 16, kMxfp4Block = 32;
inline constexpr float kInt8Unit = 7.874015718698502e-3f; ///< 1 / 127

/// Whether an element is a code of 4 bits, the index of a normal float.
inline bool isNf4(plan::WeightFormat format) {
  return format == plan::NF4 || format == plan::NF4_SINGLE;
}

/// Where the parts of a matrix begin, in bytes: multiples of 16. Of int8 there are codes and scales, of nf4_single and
/// mxfp4 the map too.
struct QuantizedLayout {
  plan::WeightFormat format = plan::PLAIN;
  uint64_t rows = 0, columns = 0;
  uint64_t scales = 0;       ///< nf4, mxfp4: a byte a block; nf4_single: an f32 a block; int8: an f32 a row
  uint64_t nestedScales = 0; ///< f32
  uint64_t nestedMap = 0;    ///< f32 [256]
  uint64_t map = 0;          ///< f32 [16]
  uint64_t mean = 0;         ///< f32 [1]
  uint64_t bytes = 0;        ///< of all of it

  /// Whether scales are found by row and column, as said above.
  bool hasScalesByRow() const { return isNf4(format) && columns % 16 == 0 && columns % kNf4Block != 0; }
  uint64_t elements() const { return rows * columns; }
  uint64_t block() const { return format == plan::MXFP4 ? kMxfp4Block : kNf4Block; } ///< elements of a scale
  uint64_t blocks() const { return (elements() + block() - 1) / block(); }
  uint64_t nestedBlocks() const { return (blocks() + kNestedBlock - 1) / kNestedBlock; }
};

/// Nothing for PLAIN and unknown formats, and where a size exceeds 2^62.
std::optional<QuantizedLayout> quantizedLayout(plan::WeightFormat format, uint64_t rows, uint64_t columns);

/// That of a parameter of a plan: of its quantized_shape, or where quantized_transposed is set of the transposed
/// matrix; of a stack, of its matrices one below the other. Nothing also where it is neither.
std::optional<QuantizedLayout> quantizedLayout(const plan::Parameter &parameter);

/// "nf4", "nf4_single", "mxfp4", "int8", "plain"; PLAIN for any other word.
const char *weightFormatName(plan::WeightFormat format);
plan::WeightFormat weightFormat(std::string_view name);

/// "14 weights in nf4: 61.2 KiB for 110592 elements" of what a plan stores in fewer bits; empty: nothing.
std::string describeQuantized(const plan::Plan &plan);

/// The shape that a parameter has in a checkpoint.
inline const google::protobuf::RepeatedField<int64_t> &checkpointShape(const plan::Parameter &parameter) {
  return parameter.format() == plan::PLAIN ? parameter.shape() : parameter.quantized_shape();
}

/// The 16 values of nf4, and the signed dynamic map of 256 values (arXiv:2110.02861), both ascending; those of e2m1.
std::span<const float> nf4Map();
std::span<const float> e2m1Map();
std::span<const float> dynamicMap();

/// Elements [begin, begin + count) of the matrix in `bytes` (`layout.bytes` of them), as f32. `begin` is a multiple of
/// kNf4Block.
void dequantize(const std::byte *bytes, const QuantizedLayout &layout, uint64_t begin, uint64_t count, float *out);

/// Gives elements [begin, begin + count) of the matrix that is quantised, row-major.
using ElementReader = std::function<void(uint64_t begin, uint64_t count, float *out)>;

/// Gives the transposed matrices of those, (matrices, rows, columns), that `read` gives: reads all of them here, in
/// pieces that begin at multiples of kNf4Block, and keeps them.
ElementReader transposedReader(uint64_t matrices, uint64_t rows, uint64_t columns, const ElementReader &read);

/// How many matrices a parameter in fewer bits has: 1, or those of a stack.
uint64_t quantizedMatrices(const plan::Parameter &parameter);

/// The reader that a parameter's bytes are made of: `read`, which gives the checkpoint's matrix, or that transposed.
ElementReader quantizedReader(const plan::Parameter &parameter, const ElementReader &read);

/// The bytes of a matrix. Reads each element once, in pieces of at most 2^16 elements, on `threads` threads at a time.
/// The mean of the scales is summed in double in the order of the blocks: nothing depends on the threads.
std::vector<std::byte> quantize(const QuantizedLayout &layout, const ElementReader &read, uint32_t threads);

} // namespace ztc
