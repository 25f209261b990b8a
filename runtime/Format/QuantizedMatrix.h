// A weight that a checkpoint stores in fewer bits and that is dequantised as it is loaded: what transformers,
// compressed-tensors, GPTQ, AWQ, ModelOpt and others write. (QuantizedWeight.h: what a plan keeps in fewer bits while
// it runs, as bitsandbytes stores it.)
//
// Every form is one formula, element = (code - zero) * scale in f32, with a scale and a zero for each block of
// elements:
//   fp8      codes of e4m3 or e5m2; a scale for all, for each row, or for each block (DeepSeek-V3, arXiv:2412.19437)
//   int8     a scale and perhaps a zero for each row
//   fp4      codes of e2m1, two a byte, the low half first; a scale for each 32 elements of a row, a power of two in a
//            byte (mxfp4, OCP Microscaling 1.0), or for each 16, an e4m3 times a number of the whole matrix (nvfp4)
//   integer  n bits each, one after the other from the low bits of 32-bit words on: along rows (compressed-tensors), or
//            along columns (GPTQ, arXiv:2210.17323); of AWQ (arXiv:2306.00978) 8 rows in a word, in an order of its own
#pragma once
#include "runtime/Format/Safetensors.h"
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ztc {

/// Numbers of a small tensor, as it stores them.
struct NumberTable {
  enum Kind : uint8_t { Absent, F32, F16, BF16, E4m3, E8m0, I8 };
  Kind kind = Absent;
  std::span<const std::byte> data;

  uint64_t count() const;
  float at(uint64_t index) const;
};

/// One such weight, in a mapped file.
struct QuantizedMatrix {
  enum class Code : uint8_t { E4m3, E5m2, I8, E2m1, Integer };
  enum class Order : uint8_t { Rows, Columns, AwqRows };

  std::string name;           ///< as the model calls it
  std::string format;         ///< "fp8", "mxfp4", "gptq in 4 bits"
  std::string problem;        ///< why its parts do not fit together, with their names; empty: they do
  std::vector<int64_t> shape; ///< of the weight; a stack of matrices has three sizes
  SafetensorsCollection::Found codes{};

  std::span<const std::byte> data; ///< of the codes
  Code code = Code::E4m3;
  Order order = Order::Rows;
  uint32_t bits = 8;                            ///< of a code
  bool isSigned = false;                        ///< integers, codes and packed zeros, are two's complement
  bool isTransposed = false;                    ///< what is stored is (columns, rows) of the weight
  uint64_t matrices = 1, rows = 0, columns = 0; ///< as they are stored: outputs, inputs
  uint64_t rowBytes = 0;                        ///< of Order::Rows

  NumberTable scales, zeros;                ///< of a matrix (rows / blockRows, columns / blockColumns)
  uint64_t blockRows = 1, blockColumns = 1; ///< elements that share a scale
  bool hasTransposedScales = false;         ///< (columns / blockColumns, rows): GPTQ and AWQ
  float scaleFactor = 1, scaleDivisor = 1;  ///< of all scales
  float zero = 0;                           ///< of all codes, without a table of zeros
  std::span<const std::byte> packedZeros;   ///< integers of `bits` bits, in the order that hasTransposedScales says
  uint64_t zeroRowBits = 0;                 ///< above 0: packedZeros has a row of so many bits for each row of blocks
  uint32_t zeroStep = 0;                    ///< added to each word of packedZeros, or to each zero of 3 bits
  std::span<const std::byte> groupOfColumn; ///< i32: which scale a column has, where they are in no order

  uint64_t elements() const { return matrices * rows * columns; }
  /// Scales along a row.
  uint64_t groups() const { return (columns + blockColumns - 1) / blockColumns; }

  /// Elements [begin, begin + count) of the weight in row-major order. The range lies inside it, and `problem` is
  /// empty.
  void read(uint64_t begin, uint64_t count, float *out) const;
};

} // namespace ztc
