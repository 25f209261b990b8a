// GPU architectures that kernels are generated for, and what each can: one table for the code generator, its tests and
// reports.
#pragma once
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <string>

namespace ztc {

/// Instructions that not all of them have; bits of DeviceTarget::instructions.
enum DeviceInstructions : unsigned {
  kCopyAsync = 1,             ///< cp.async: global to shared memory past the registers
  kBulkCopy = 2,              ///< cp.async.bulk, mbarrier with bytes, clusters (TMA)
  kDependentLaunch = 4,       ///< griddepcontrol: a kernel's beginning beside the end of the one before
  kWarpgroupProducts = 8,     ///< wgmma
  kTensorMemoryProducts = 16, ///< tcgen05
};

/// Types of the factors of products by tensor cores; bits of DeviceTarget::products.
enum DeviceProducts : unsigned {
  kF16Products = 1,
  kBf16Products = 2,
  kTf32Products = 4,
  kFp8Products = 8,          ///< e4m3 and e5m2
  kBlockScaledProducts = 16, ///< mxfp8, mxfp4 and nvfp4, with a scale for each block
};

/// Sources: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"; PTX ISA, "Target ISA Notes"
/// of the instructions named here.
struct DeviceTarget {
  llvm::StringLiteral name;      ///< as --target takes it: sm_90a
  unsigned ptx;                  ///< the oldest PTX version that knows it, 80 is 8.0
  unsigned assembler;            ///< the oldest CUDA version whose ptxas does: 1000 major + 10 minor
  unsigned threads, blocks;      ///< of a multiprocessor; all have 64 Ki registers
  unsigned sharedKibibytes;      ///< of a multiprocessor
  unsigned blockSharedKibibytes; ///< of a block that asks for all it can get; 48 without asking
  unsigned products, instructions;
  llvm::StringLiteral devices; ///< for whom
};

/// All of them, oldest first.
llvm::ArrayRef<DeviceTarget> deviceTargets();
/// By name; null where there is none.
const DeviceTarget *findDeviceTarget(llvm::StringRef name);

/// The engine of the tests that executes kernels for GPUs on a processor.
inline constexpr llvm::StringLiteral kSimtTarget = "simt";
/// Whether kernels of this name run in blocks of threads: one of the table, or simt.
bool isDeviceTarget(llvm::StringRef name);
/// For messages: all names and simt, with commas.
std::string deviceTargetNames();

} // namespace ztc
