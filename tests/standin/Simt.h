// Runs kernels that were generated for a GPU on an x86 processor, with a GPU's semantics: grid, blocks, warps of 32
// lanes, barriers, shuffles. A kernel thread is a fiber; its NVVM intrinsics are imports of the image, which this
// library exports (SimtIntrinsics.cpp) under their LLVM names with '_' for '.'.
#pragma once
#include "runtime/Core/Status.h"
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace ztc::simt {

struct Dim3 {
  uint32_t x = 1, y = 1, z = 1;
  uint64_t count() const { return uint64_t(x) * y * z; }
};

/// What a kernel did, over all threads.
struct Counters {
  uint64_t blocks = 0;
  uint64_t readBytes = 0, writtenBytes = 0; ///< of global memory, where the image counts them (ztc_simt_read, _write)
  uint64_t barriers = 0;                    ///< times that a block met at a barrier
  uint64_t warpOperations = 0;              ///< times that lanes met: shuffles, votes, barriers of a warp
};

/// A kernel's symbol in an image: parameters[i] points at the i-th kernel parameter, as in cuLaunchKernel.
using Entry = void (*)(void *const *parameters);

/// A loaded image: an x86-64 shared object.
class Image {
public:
  /// Fails (FailedPrecondition) with the loader's words: an intrinsic that the engine lacks is named there.
  static StatusOr<std::unique_ptr<Image>> load(std::string_view bytes);
  ~Image();
  Image(const Image &) = delete;
  Image &operator=(const Image &) = delete;
  /// Null where there is no such kernel.
  Entry find(const std::string &kernel) const;
  /// True where the bytes are a shared object for this processor and no cubin.
  static bool isImage(std::string_view bytes);

private:
  Image(void *handle, int descriptor) : handle_(handle), descriptor_(descriptor) {}
  void *handle_;
  int descriptor_; ///< open as long as the image: the loader finds images by this number
};

/// In which order blocks and threads get their turns. A correct kernel writes the same bits in each.
enum class Order { Ascending, Descending };

struct LaunchShape {
  Dim3 grid, block;
  Order order = Order::Ascending;
  /// Of the grid's blocks in order these alone run; all where someBlocks is 0. They know the whole grid's size.
  uint64_t firstBlock = 0, someBlocks = 0;
};

inline constexpr uint32_t kMaxBlockThreads = 1024;
inline constexpr uint32_t kWarpLanes = 32;

/// Runs a whole grid, block after block, and returns when it is done. One launch at a time in a process: others wait.
/// `counters` may be null; it is added to. Fails (InvalidArgument) for a shape that no GPU takes, FailedPrecondition
/// where threads wait for what never comes: a barrier that a thread left out, a shuffle that a lane of the mask does
/// not reach, or reads from outside it.
Status launch(Entry entry, const LaunchShape &shape, void *const *parameters, Counters *counters = nullptr);

/// Asked for every access that an image reports; false ends the launch with an error. Null: all are good.
using MemoryCheck = bool (*)(const void *address, uint64_t bytes);
void setMemoryCheck(MemoryCheck check);

} // namespace ztc::simt
