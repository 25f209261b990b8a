// The vocabulary of the kernel emitters: scalar and vector arithmetic, loads and stores through bare pointers.
#pragma once
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include <cstdint>

namespace ztc::codegen {

/// Columns that share an accumulator: column c of a reduced row belongs to lane c mod kVirtualLanes, on every target.
inline constexpr int64_t kVirtualLanes = 64;
/// Elements that the emitters handle at once: one zmm or two ymm registers of f32. A divisor of kVirtualLanes.
inline constexpr int64_t kChunk = 16;
/// A GPU's shared memory, as NVPTX numbers it.
inline constexpr unsigned kSharedSpace = 3;

/// Whether `x` is a floating-point number, or a vector of them.
bool isReal(mlir::Value x);

/// Emits scalars, or vectors elementwise; both give the same bits. Integers are i64 unless said otherwise.
class KernelBuilder : public mlir::ImplicitLocOpBuilder {
public:
  using ImplicitLocOpBuilder::ImplicitLocOpBuilder;

  /// Whether the kernel is for GPUs, which have instructions for what takes several on x86: rounding to bf16, and
  /// maxima that keep NaN.
  bool forGpu = false;

  /// `element` in the shape (scalar or vector) of `like`.
  static mlir::Type shaped(mlir::Type like, mlir::Type element);
  /// `element` itself for one lane, else a vector of `lanes`.
  static mlir::Type shaped(int64_t lanes, mlir::Type element);

  mlir::Value real(mlir::Type type, double value);
  mlir::Value integer(mlir::Type type, int64_t value);
  mlir::Value i64(int64_t value) { return integer(getI64Type(), value); }

  mlir::Value add(mlir::Value a, mlir::Value b);
  mlir::Value sub(mlir::Value a, mlir::Value b);
  mlir::Value mul(mlir::Value a, mlir::Value b);
  mlir::Value div(mlir::Value a, mlir::Value b);
  /// a * b + c, rounded once.
  mlir::Value fma(mlir::Value a, mlir::Value b, mlir::Value c);
  mlir::Value sqrt(mlir::Value x);
  /// Of math: `ztc-expand-math` makes arithmetic of them.
  mlir::Value exp(mlir::Value x);
  mlir::Value log(mlir::Value x);
  mlir::Value tanh(mlir::Value x);
  mlir::Value negate(mlir::Value x);
  mlir::Value absolute(mlir::Value x);
  mlir::Value compare(mlir::arith::CmpFPredicate predicate, mlir::Value a, mlir::Value b);
  mlir::Value compare(mlir::arith::CmpIPredicate predicate, mlir::Value a, mlir::Value b);
  mlir::Value select(mlir::Value condition, mlir::Value a, mlir::Value b);
  /// NaN if either is NaN.
  mlir::Value maximum(mlir::Value a, mlir::Value b);
  mlir::Value minimum(mlir::Value a, mlir::Value b);
  mlir::Value bitcast(mlir::Value x, mlir::Type element);
  /// A float as an element of `element` is held in a register: rounded, in f32, where that is narrow.
  mlir::Value convertReal(mlir::Value x, mlir::Type element);

  /// Of a GPU's kernel: the thread's number in its block, and the block's in the grid. i64.
  mlir::Value threadNumber();
  mlir::Value blockNumber();
  /// All threads of the block must come by, or none.
  void barrier();
  /// i32: bit l is `condition` of the warp's lane l. All lanes of the warp must come by.
  mlir::Value ballot(mlir::Value condition);
  /// The value that the lane with this lane's number xor `mask` has. All lanes of the warp must come by. f32 or i32.
  mlir::Value exchange(mlir::Value value, int64_t mask);
  /// The fp8 codes of two f32, saturated, in a format's type: i16, the first one in the lower byte.
  mlir::Value fp8Pair(mlir::Value first, mlir::Value second, mlir::Type format);

  /// The element type of `type`, which may be of another context, in this one; null for what kernels do not know.
  mlir::Type element(mlir::Type type);

  /// A loop over i64 or i32 from `begin` to before `end` with carried values, which it returns.
  mlir::SmallVector<mlir::Value> forRange(mlir::Value begin, mlir::Value end, int64_t step,
                                          mlir::SmallVector<mlir::Value> carried,
                                          llvm::function_ref<void(mlir::Value, mlir::SmallVector<mlir::Value> &)> body);

  /// A scalar in every lane; the scalar itself for one lane.
  mlir::Value splat(mlir::Value scalar, int64_t lanes);
  /// Folds 64 partial results, four vectors of kChunk, by halving: lane i with i + 32, then i + 16, ... down to one.
  mlir::Value foldLanes(mlir::ArrayRef<mlir::Value> quarters,
                        llvm::function_ref<mlir::Value(mlir::Value, mlir::Value)> combine);

  /// The address of element `index` of an array of `element` (an i1 takes a byte).
  mlir::Value address(mlir::Value base, mlir::Type element, mlir::Value index);
  /// `lanes` consecutive elements at `pointer`, which is known to be a multiple of `alignment` bytes (0: of an
  /// element); narrow floats become f32.
  mlir::Value load(mlir::Value pointer, mlir::Type element, int64_t lanes, int64_t alignment = 0);
  void store(mlir::Value value, mlir::Value pointer, int64_t alignment = 0);
  /// Stores a register's value as elements of `element`; a narrow one must hold the value.
  void store(mlir::Value value, mlir::Value pointer, mlir::Type element, int64_t alignment = 0);
  /// Lanes where the mask is false read `other` and are not touched in memory.
  mlir::Value maskedLoad(mlir::Value pointer, mlir::Value mask, mlir::Value other);
  void maskedStore(mlir::Value value, mlir::Value pointer, mlir::Value mask);

private:
  /// Pairs of bf16, as a 32-bit register of a GPU holds them, widened by an instruction each.
  mlir::Value widenPairs(mlir::Value pairs);

  /// The bits in memory of what was loaded from there or rounded, a vector of bf16 or of pairs of them.
  llvm::DenseMap<mlir::Value, mlir::Value> asStored_;
};

/// The lanes of a scalar (1) or vector type.
int64_t lanesOf(mlir::Type type);
/// Bytes of one stored element; an i1 takes one.
int64_t storedBytes(mlir::Type element);
/// Whether `element` is bf16 or f16. Registers hold such numbers as f32: LLVM would make library calls of what it finds
/// on bf16 vectors.
bool isNarrow(mlir::Type element);
/// What the name of a kernel for tensors of `element` ends with: "_bf16", "_f16", nothing for f32.
llvm::StringRef typeSuffix(mlir::Type element);
/// What a register holds an element as.
mlir::Type registerType(mlir::Type element);

} // namespace ztc::codegen
