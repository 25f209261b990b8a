// Memory of a tensor's real size for kernels that touch a little of it.
#pragma once
#include "mlir/IR/Types.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include <cstdint>

namespace ztc {
struct Tensor;
} // namespace ztc

namespace ztc::verification {

/// Bytes that read as a pattern until they are written. All pages are those of one small file, copied when they are
/// written: gigabytes take address space, memory alone what is written. The pattern's length is a prime number of
/// pages (of states in blocks an odd one that holds whole records), so neighbouring rows and blocks differ, and what is
/// read from the wrong place is another number.
class PatternMemory {
public:
  /// Random elements of `type`, as randomOperand gives them, or their magnitudes; `seed` says where in the pattern the
  /// memory begins. Fails where the system gives no address space.
  static llvm::Expected<PatternMemory> random(mlir::Type type, int64_t elements, unsigned seed,
                                              bool magnitudes = false);
  /// Bytes 0x7f: large numbers, in floats as in integers.
  static llvm::Expected<PatternMemory> poison(uint64_t bytes);

  PatternMemory(PatternMemory &&other) noexcept { *this = std::move(other); }
  PatternMemory &operator=(PatternMemory &&other) noexcept {
    std::swap(region, other.region), std::swap(regionBytes, other.regionBytes);
    std::swap(begin, other.begin), std::swap(byteCount, other.byteCount);
    return *this;
  }
  ~PatternMemory();

  char *data() const { return begin; }
  uint64_t size() const { return byteCount; }
  /// The elements at these positions of what it holds as a tensor of `type`, in one dimension.
  Tensor elements(mlir::Type type, llvm::ArrayRef<int64_t> positions) const;
  /// Elements [first, first + values.count()) of that tensor become `values`; not of states in blocks.
  void write(int64_t first, const Tensor &values);

private:
  PatternMemory() = default;
  static llvm::Expected<PatternMemory> make(int file, uint64_t patternPages, uint64_t bytes, uint64_t firstPage);

  void *region = nullptr; ///< with room before and after
  uint64_t regionBytes = 0, byteCount = 0;
  char *begin = nullptr;
};

/// Bytes of so many elements as kernels store them; of states in blocks those of whole records.
uint64_t storedBytes(mlir::Type type, int64_t elements);

} // namespace ztc::verification
