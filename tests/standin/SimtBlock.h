// The engine's inside: the block that runs now, its threads as fibers, and what they wait for.
#pragma once
#include "tests/standin/Simt.h"
#include "tests/standin/SimtAccesses.h"
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace ztc::simt {

/// What lanes do together.
enum class WarpOperation : uint8_t {
  None,
  ShuffleIndex,
  ShuffleUp,
  ShuffleDown,
  ShuffleXor,
  All,
  Any,
  Ballot,
  Barrier,
  Together
};

struct LaneRequest;
/// Computes what all lanes of a warp get, from what all of them give.
using WarpFunction = void (*)(LaneRequest *const *lanes);

/// A lane's part of a warp operation.
struct LaneRequest {
  WarpOperation operation = WarpOperation::None;
  uint32_t mask = 0;  ///< lanes that take part, this one among them
  uint32_t value = 0; ///< bits given; of a vote: 0 or 1
  uint32_t lane = 0;  ///< of a shuffle: index or distance
  uint32_t clamp = 0; ///< of a shuffle: segments and limit, as PTX's operand c
  uint32_t result = 0;
  bool valid = false;              ///< of a shuffle: the source was in range
  WarpFunction function = nullptr; ///< of Together
  const void *operands = nullptr;
  void *results = nullptr;
};

/// Where 16 bytes of shared memory go: to the kernel's variable there.
struct SharedPlace {
  void *address = nullptr;
  const void *variable = nullptr;
  uint64_t variableBytes = 0;
};
inline constexpr uint64_t kCopyBytes = 16;

/// A copy beside its thread. The bytes are in shared memory once the thread has waited for them; until then it holds
/// what no kernel wants to read.
struct AsyncCopy {
  SharedPlace to;
  std::byte bytes[kCopyBytes];
  uint32_t group = 0; ///< number of its group among the thread's
};

enum class ThreadState : uint8_t { Ready, AtBarrier, InWarp, Done };

struct Thread {
  void *stackPointer = nullptr; ///< while it does not run
  std::byte *stack = nullptr;   ///< lowest usable byte
  void *sanitizerFiber = nullptr;
  Dim3 index; ///< threadIdx
  uint32_t linear = 0;
  ThreadState state = ThreadState::Done;
  LaneRequest request;
  std::vector<AsyncCopy> copies; ///< on their way, in their order
  uint32_t copyGroups = 0;       ///< groups that were closed so far

  uint32_t warp() const { return linear / kWarpLanes; }
  uint32_t lane() const { return linear % kWarpLanes; }
};

/// Addresses by which ThreadSanitizer is told what orders what in a launch.
struct Tokens {
  char block;                                  ///< begin and end of a block
  char barrier[2];                             ///< by parity: nobody leaves one late enough to see the next but one
  char warp[kMaxBlockThreads / kWarpLanes][2]; ///< barriers of a warp
};

/// The block that runs; one in a process at a time. All functions but run() are called on a thread's fiber.
class Block {
public:
  static Block &current();

  Status runGrid(Entry entry, const LaunchShape &shape, void *const *parameters, Counters &counters);

  const Thread &self() const { return *self_; }
  const Dim3 &blockIndex() const { return blockIndex_; }
  const LaunchShape &shape() const { return *shape_; }
  /// Lanes of the warp of self() that exist and have not returned.
  uint32_t liveLanes() const;

  void barrier();
  /// Waits for the lanes of request.mask and fills in the result.
  void meet(LaneRequest &request);
  /// Calls `function` once with the requests of all lanes of a whole warp.
  void together(WarpFunction function, const void *operands, void *results);
  /// Of an access to global memory, by the instruction at `from`.
  void countRead(const void *address, uint64_t bytes, const void *from);
  void countWrite(const void *address, uint64_t bytes, const void *from);
  /// Of one that any thread may make at any time.
  void countAtomicWrite(const void *address, uint64_t bytes);
  /// Of an access to shared memory: to the kernel's variable there.
  void noteShared(bool writes, const void *address, uint64_t bytes, const void *variable, uint64_t variableBytes,
                  const void *from);
  /// Begins a copy of kCopyBytes from global memory, of which `bytes` are read and the rest are 0.
  void copyAsync(const SharedPlace &to, const void *address, uint64_t bytes, const void *from);
  /// Copies since the last call are a group.
  void commitCopies();
  /// Waits until of the thread's groups all but the last `pending` are there.
  void waitForCopies(uint32_t pending, const void *from);

private:
  Status runBlocks();
  Status runBlock();
  void prepareThread(Thread &thread);
  void resume(Thread &thread);
  /// Gives the processor back to runBlock().
  void pause();
  void finishThread();
  static void threadMain();
  void releaseBarrier();
  /// Completes the warp operation of self() if all its lanes are there.
  bool completeWarp(uint32_t mask);
  void computeResults(Thread *lanes, uint32_t mask);
  /// Ends the launch where the access is in no order with another one's.
  void noteAccess(bool writes, bool isShared, const void *address, uint64_t bytes);
  [[noreturn]] void fail(const char *what);
  Status stuck() const;

  Entry entry_ = nullptr;
  void *const *parameters_ = nullptr;
  const LaunchShape *shape_ = nullptr;
  Counters *counters_ = nullptr;
  Dim3 blockIndex_;
  uint64_t blockNumber_ = 0;
  Accesses accesses_;
  std::unique_ptr<Tokens> tokens_;
  Thread threads_[kMaxBlockThreads];
  Thread *self_ = nullptr;
  uint32_t threadCount_ = 0, atBarrier_ = 0, done_ = 0, ready_ = 0;
  void *schedulerStack_ = nullptr;
  void *schedulerFiber_ = nullptr;
  const void *schedulerBottom_ = nullptr;
  size_t schedulerBytes_ = 0;
  char error_[256] = ""; ///< empty: none
};

} // namespace ztc::simt
