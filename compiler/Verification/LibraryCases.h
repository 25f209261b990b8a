// What the kernels of library calls have to compute at the sizes of a plan: launches of a few units of each, and
// numbers that these must leave in memory.
#pragma once
#include "compiler/Verification/KernelImages.h"
#include "compiler/Verification/PatternMemory.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Operation.h"
#include <cmath>
#include <functional>
#include <set>
#include <string>
#include <vector>

namespace ztc::verification {

/// A number that a launch must leave in one of its buffers.
struct LibraryNumber {
  unsigned buffer = 0;
  mlir::Type type;     ///< of the buffer's elements there
  int64_t element = 0; ///< of a tensor of `type` that begins where the buffer does
  double value = 0, tolerance = 0;
};

/// Launches of a service kernel (runtime/Format/ServiceKernels.md) on memory of its real sizes.
struct LibraryLaunch {
  struct Buffer {
    std::string name; ///< "lse"
    PatternMemory memory;
  };
  std::vector<Buffer> buffers;
  std::vector<int64_t> scalars;
  int64_t extent = 0;
  std::set<int64_t> units; ///< that run: units of the host, blocks of a GPU
  std::vector<LibraryNumber> numbers;

  /// Adds a buffer of random elements, and returns its number; of poison. What the system refuses is in `refused`.
  unsigned random(llvm::StringRef name, mlir::Type type, int64_t elements, unsigned seed);
  unsigned poison(llvm::StringRef name, uint64_t bytes);
  /// Adds a buffer of these numbers.
  unsigned given(llvm::StringRef name, const Tensor &values);
  PatternMemory &memory(unsigned buffer) { return buffers[buffer].memory; }
  /// Element `element` of `buffer` has to be `value`, by `relative` of it and `absolute` at most.
  void expect(unsigned buffer, mlir::Type type, int64_t element, double value, double relative, double absolute = 0);

  std::string refused; ///< why there is nothing to run
  std::string leftOut; ///< what of the units that should run would take too long

private:
  unsigned add(llvm::StringRef name, llvm::Expected<PatternMemory> memory);
};

/// A sum and what its terms are in magnitude: how far a kernel may be from it, whatever order it adds them in, is
/// kTermTolerance of that.
struct TermSum {
  double value = 0, magnitude = 0;
  void add(double term, double size) { value += term, magnitude += std::abs(size); }
  void add(double term) { add(term, term); }
  void add(const TermSum &x, double factor = 1) { add(x.value * factor, x.magnitude * factor); }
};
inline constexpr double kTermTolerance = 1e-5;

/// One kernel of one call.
struct LibraryCase {
  std::string kernel; ///< the symbol
  std::string call;   ///< "attention of 1 x 4097 rows, ...": equal where the sizes and all that matters are
  bool isForGpus = false;
  /// Memory as it is before the launches, and what they must make of it; a launch without units is left out.
  std::function<LibraryLaunch(const KernelVersion &version)> make;
};

/// The kernels that `op`, a library call, uses on one kind of device, with what they must compute. Those that are not
/// among them are not known here.
std::vector<LibraryCase> attentionCases(mlir::Operation *op, mlir::DictionaryAttr kernels);
std::vector<LibraryCase> documentCases(mlir::Operation *op, mlir::DictionaryAttr kernels);
std::vector<LibraryCase> lossCases(mlir::Operation *op, mlir::DictionaryAttr kernels);
std::vector<LibraryCase> transferCases(mlir::Operation *op, mlir::DictionaryAttr kernels);
std::vector<LibraryCase> expertCases(mlir::Operation *op, mlir::DictionaryAttr kernels);
std::vector<LibraryCase> scanCases(mlir::Operation *op, mlir::DictionaryAttr kernels);
std::vector<LibraryCase> recurrenceCases(mlir::Operation *op, mlir::DictionaryAttr kernels);

/// The first two, one in the middle and the last of `count`.
std::set<int64_t> fewOf(int64_t count);

/// How far a number in `type` may be from what it has to be, of that number: its own rounding, and the order of sums.
double libraryTolerance(mlir::Type type);

/// The symbol of a kernel by its field in `kernels`, or number `index` of those for GPUs; empty where there is none.
std::string serviceKernelOf(mlir::DictionaryAttr kernels, llvm::StringRef field);
std::string gpuKernelOf(mlir::DictionaryAttr kernels, unsigned index);

} // namespace ztc::verification
