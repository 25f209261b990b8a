// Elements of tensors as bytes and as numbers: the formats that files and attributes have, and rounding to them.
#pragma once
#include "llvm/ADT/ArrayRef.h"
#include <cstdint>
#include <vector>

namespace llvm {
class APFloat;
struct fltSemantics;
} // namespace llvm

namespace ztc {

/// The value of a float of any format that double holds.
double toDouble(const llvm::APFloat &value);

/// `value` rounded to nearest even, ties to even, in a format that is not wider: once, from double.
double roundOnce(double value, const llvm::fltSemantics &semantics);
/// The same of a format below f32 through f32, as kernels do: they compute in f32, and round that when they store it.
double roundThroughF32(double value, const llvm::fltSemantics &semantics);

/// Little-endian elements of a float format as numbers, added to `reals`. `bytes` holds whole elements.
void readFloats(llvm::ArrayRef<char> bytes, const llvm::fltSemantics &semantics, std::vector<double> &reals);
/// Little-endian integers of 1, 2, 4 or 8 bytes, added to `integers`; unsigned ones of 8 bytes as their bits.
void readIntegers(llvm::ArrayRef<char> bytes, unsigned bytesEach, bool isSigned, std::vector<int64_t> &integers);

} // namespace ztc
