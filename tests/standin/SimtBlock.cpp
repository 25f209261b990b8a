#include "tests/standin/SimtBlock.h"
#include "tests/standin/SimtFibers.h"
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <mutex>

namespace ztc::simt {
namespace {

std::mutex launchMutex;
MemoryCheck memoryCheck = nullptr;

uint32_t barrierParity = 0;
uint32_t warpParity[kMaxBlockThreads / kWarpLanes];

Dim3 unflatten(uint64_t linear, const Dim3 &size) {
  return {uint32_t(linear % size.x), uint32_t(linear / size.x % size.y), uint32_t(linear / size.x / size.y)};
}

/// One launch at a time. A GPU knows of no such order: ThreadSanitizer is not told.
struct OnlyLaunch {
  OnlyLaunch() {
    Unseen unseen;
    launchMutex.lock();
  }
  ~OnlyLaunch() {
    Unseen unseen;
    launchMutex.unlock();
  }
};

/// What tests of the sanitizers leave out: barriers (ZTC_STAND_IN_BARRIERS=none), or that blocks know which one they
/// are (ZTC_STAND_IN_BLOCKS=first: all take themselves for the first).
bool isVariable(const char *name, std::string_view value) {
  const char *text = std::getenv(name);
  return text && text == value;
}
bool hasBarriers() {
  static const bool none = isVariable("ZTC_STAND_IN_BARRIERS", "none");
  return !none;
}
bool hasOneBlock() {
  static const bool first = isVariable("ZTC_STAND_IN_BLOCKS", "first");
  return first;
}

const char *operationName(const Thread &thread) {
  switch (thread.state) {
  case ThreadState::Done:
    return "has returned";
  case ThreadState::AtBarrier:
    return "waits at a barrier of the block";
  case ThreadState::Ready:
    return "is ready";
  case ThreadState::InWarp:
    break;
  }
  switch (thread.request.operation) {
  case WarpOperation::All:
  case WarpOperation::Any:
  case WarpOperation::Ballot:
    return "waits at a vote";
  case WarpOperation::Barrier:
    return "waits at a barrier of its warp";
  case WarpOperation::Together:
    return "waits at an operation of the whole warp";
  default:
    return "waits at a shuffle";
  }
}

} // namespace

Block &Block::current() {
  static Block block;
  return block;
}

void setMemoryCheck(MemoryCheck check) {
  std::lock_guard lock(launchMutex);
  memoryCheck = check;
}

Status launch(Entry entry, const LaunchShape &shape, void *const *parameters, Counters *counters) {
  const Dim3 &grid = shape.grid, &block = shape.block;
  if (!grid.count() || !block.count() || block.count() > kMaxBlockThreads || block.z > 64 || grid.x > 0x7fffffff ||
      grid.y > 65535 || grid.z > 65535)
    return invalidArgument(fmt::format("a grid of {} x {} x {} blocks of {} x {} x {} threads cannot be launched",
                                       grid.x, grid.y, grid.z, block.x, block.y, block.z));
  OnlyLaunch only;
  Counters unused;
  return Block::current().runGrid(entry, shape, parameters, counters ? *counters : unused);
}

Status Block::runGrid(Entry entry, const LaunchShape &shape, void *const *parameters, Counters &counters) {
  entry_ = entry;
  parameters_ = parameters;
  shape_ = &shape;
  counters_ = &counters;
  threadCount_ = uint32_t(shape.block.count());
  schedulerFiber_ = currentSanitizerFiber();
  for (uint32_t i = 0; i < threadCount_; ++i) {
    Thread &thread = threads_[i];
    if (!thread.stack && !(thread.stack = makeStack()))
      return resourceExhausted(fmt::format("no memory for the stacks of {} threads", threadCount_));
    thread.linear = i;
    thread.index = unflatten(i, shape.block);
  }
  // Launches of other streams are in no order with this one: ThreadSanitizer sees other threads in each.
  for (uint32_t i = 0; i < threadCount_; ++i)
    threads_[i].sanitizerFiber = makeSanitizerFiber();
  tokens_ = std::make_unique<Tokens>();
  accesses_.begin();
  const Status status = runBlocks();
  for (uint32_t i = 0; i < threadCount_; ++i)
    endSanitizerFiber(threads_[i].sanitizerFiber);
  return status;
}

Status Block::runBlocks() {
  const uint64_t first = std::min(shape_->firstBlock, shape_->grid.count()), left = shape_->grid.count() - first;
  const uint64_t blocks = shape_->someBlocks ? std::min(shape_->someBlocks, left) : left;
  for (uint64_t b = 0; b < blocks; ++b) {
    blockNumber_ = first + (shape_->order == Order::Ascending ? b : blocks - 1 - b);
    blockIndex_ = unflatten(hasOneBlock() ? 0 : blockNumber_, shape_->grid);
    ++counters_->blocks;
    accesses_.orderBlock(); // blocks of the grid are told apart by themselves
    ZTC_RETURN_IF_ERROR(runBlock());
  }
  return Status::ok();
}

void Block::prepareThread(Thread &thread) {
  cleanStack(thread.stack);
  thread.stackPointer = beginOn(thread.stack, &Block::threadMain);
  thread.state = ThreadState::Ready;
  thread.copies.clear();
  thread.copyGroups = 0;
}

Status Block::runBlock() {
  error_[0] = 0;
  atBarrier_ = done_ = 0;
  ready_ = threadCount_;
  for (uint32_t i = 0; i < threadCount_; ++i)
    prepareThread(threads_[i]);
  release(&tokens_->block);
  while (done_ < threadCount_) {
    if (ready_ == 0)
      return stuck();
    for (uint32_t i = 0; i < threadCount_; ++i) {
      Thread &thread = threads_[shape_->order == Order::Ascending ? i : threadCount_ - 1 - i];
      if (thread.state != ThreadState::Ready)
        continue;
      resume(thread);
      if (error_[0])
        return failedPrecondition(fmt::format("block ({}, {}, {}), thread ({}, {}, {}): {}", blockIndex_.x,
                                              blockIndex_.y, blockIndex_.z, thread.index.x, thread.index.y,
                                              thread.index.z, error_));
    }
  }
  acquire(&tokens_->block);
  return Status::ok();
}

Status Block::stuck() const {
  std::string text = fmt::format("block ({}, {}, {}) cannot go on:", blockIndex_.x, blockIndex_.y, blockIndex_.z);
  const char *last = nullptr;
  uint32_t kinds = 0;
  for (uint32_t i = 0; i < threadCount_; ++i) {
    const char *name = operationName(threads_[i]);
    if (name == last)
      continue;
    last = name;
    if (++kinds > 6)
      break;
    text += fmt::format("{} thread {} {}", kinds > 1 ? "," : "", i, name);
    if (threads_[i].state == ThreadState::InWarp)
      text += fmt::format(" with mask {:#x}", threads_[i].request.mask);
  }
  return failedPrecondition(text);
}

// What a switch needs across it lives on the stack that is left: each fiber has its own.
void Block::resume(Thread &thread) {
  self_ = &thread;
  void *fake = nullptr;
  leaveFor(&fake, false, thread.stack, kStackBytes, thread.sanitizerFiber);
  ztcSimtSwitch(&schedulerStack_, thread.stackPointer);
  arrive(fake, nullptr, nullptr);
}

void Block::pause() {
  Thread &thread = *self_;
  void *fake = nullptr;
  leaveFor(&fake, false, schedulerBottom_, schedulerBytes_, schedulerFiber_);
  ztcSimtSwitch(&thread.stackPointer, schedulerStack_);
  arrive(fake, &schedulerBottom_, &schedulerBytes_);
}

void Block::threadMain() {
  Block &block = current();
  arrive(nullptr, &block.schedulerBottom_, &block.schedulerBytes_);
  acquire(&block.tokens_->block);
  block.entry_(block.parameters_);
  release(&block.tokens_->block);
  block.finishThread();
}

void Block::finishThread() {
  Thread &thread = *self_;
  thread.state = ThreadState::Done;
  ++done_;
  --ready_;
  leaveFor(nullptr, true, schedulerBottom_, schedulerBytes_, schedulerFiber_);
  ztcSimtSwitch(&thread.stackPointer, schedulerStack_);
  __builtin_unreachable();
}

void Block::fail(const char *what) {
  std::snprintf(error_, sizeof error_, "%s", what);
  leaveFor(nullptr, true, schedulerBottom_, schedulerBytes_, schedulerFiber_);
  ztcSimtSwitch(&self_->stackPointer, schedulerStack_);
  __builtin_unreachable(); // nobody resumes a thread that failed
}

uint32_t Block::liveLanes() const {
  uint32_t mask = 0;
  const uint32_t first = self_->warp() * kWarpLanes;
  for (uint32_t lane = 0; lane < kWarpLanes && first + lane < threadCount_; ++lane)
    if (threads_[first + lane].state != ThreadState::Done)
      mask |= 1u << lane;
  return mask;
}

void Block::barrier() {
  if (!hasBarriers())
    return;
  Thread &thread = *self_;
  const uint32_t parity = barrierParity;
  release(&tokens_->barrier[parity]);
  if (++atBarrier_ == threadCount_) {
    releaseBarrier();
  } else {
    thread.state = ThreadState::AtBarrier;
    --ready_;
    pause();
  }
  acquire(&tokens_->barrier[parity]);
}

void Block::releaseBarrier() {
  ++counters_->barriers;
  accesses_.orderBlock();
  barrierParity ^= 1;
  atBarrier_ = 0;
  for (uint32_t i = 0; i < threadCount_; ++i)
    if (threads_[i].state == ThreadState::AtBarrier) {
      threads_[i].state = ThreadState::Ready;
      ++ready_;
    }
}

void Block::meet(LaneRequest &request) {
  Thread &thread = *self_;
  const uint32_t warp = thread.warp(), parity = warpParity[warp];
  const bool orders = request.operation == WarpOperation::Barrier;
  if (!(request.mask >> thread.lane() & 1))
    fail("a warp operation whose mask does not contain the lane that executes it");
  if (orders)
    release(&tokens_->warp[warp][parity]);
  thread.request = request;
  thread.state = ThreadState::InWarp;
  --ready_;
  if (!completeWarp(request.mask))
    pause();
  if (orders)
    acquire(&tokens_->warp[warp][parity]);
  request = thread.request;
  if (request.operation == WarpOperation::None)
    fail("a shuffle that reads from a lane outside its mask or its block");
}

void Block::together(WarpFunction function, const void *operands, void *results) {
  if (liveLanes() != ~0u)
    fail("an operation of a whole warp, some of whose lanes have returned or are not there");
  LaneRequest request{.operation = WarpOperation::Together,
                      .mask = ~0u,
                      .function = function,
                      .operands = operands,
                      .results = results};
  meet(request);
}

bool Block::completeWarp(uint32_t mask) {
  Thread &thread = *self_;
  const uint32_t first = thread.warp() * kWarpLanes;
  for (uint32_t lane = 0; lane < kWarpLanes; ++lane) {
    // Lanes past the block's end do not exist: nobody waits for them.
    if (!(mask >> lane & 1) || first + lane >= threadCount_)
      continue;
    const Thread &other = threads_[first + lane];
    if (other.state != ThreadState::InWarp || other.request.operation != thread.request.operation ||
        other.request.mask != mask || other.request.function != thread.request.function)
      return false;
  }
  ++counters_->warpOperations;
  if (thread.request.operation == WarpOperation::Barrier) {
    accesses_.orderWarp(thread.warp());
    warpParity[thread.warp()] ^= 1;
  }
  computeResults(threads_ + first, mask);
  for (uint32_t lane = 0; lane < kWarpLanes && first + lane < threadCount_; ++lane)
    if (mask >> lane & 1) {
      threads_[first + lane].state = ThreadState::Ready;
      ++ready_;
    }
  return true;
}

/// PTX ISA, shfl.sync: source lane and whether it is in range.
static uint32_t sourceLane(const LaneRequest &request, uint32_t lane, bool &valid) {
  const uint32_t distance = request.lane & 31, limit = request.clamp & 31, segment = request.clamp >> 8 & 31;
  const uint32_t maximum = (lane & segment) | (limit & ~segment & 31), minimum = lane & segment;
  uint32_t source = lane;
  switch (request.operation) {
  case WarpOperation::ShuffleUp:
    valid = int32_t(lane) - int32_t(distance) >= int32_t(maximum);
    source = lane - distance;
    break;
  case WarpOperation::ShuffleDown:
    source = lane + distance;
    valid = source <= maximum;
    break;
  case WarpOperation::ShuffleXor:
    source = lane ^ distance;
    valid = source <= maximum;
    break;
  default:
    source = minimum | (distance & ~segment & 31);
    valid = source <= maximum;
    break;
  }
  return valid ? source : lane;
}

void Block::computeResults(Thread *lanes, uint32_t mask) {
  const uint32_t existing = threadCount_ - uint32_t(lanes - threads_);
  const uint32_t present = existing >= kWarpLanes ? mask : mask & ((1u << existing) - 1);
  if (mask == ~0u && lanes[0].request.operation == WarpOperation::Together) {
    LaneRequest *requests[kWarpLanes];
    for (uint32_t lane = 0; lane < kWarpLanes; ++lane)
      requests[lane] = &lanes[lane].request;
    lanes[0].request.function(requests);
    return;
  }
  uint32_t votes = 0;
  for (uint32_t lane = 0; lane < kWarpLanes; ++lane)
    if (present >> lane & 1 && lanes[lane].request.value)
      votes |= 1u << lane;
  for (uint32_t lane = 0; lane < kWarpLanes; ++lane) {
    if (!(present >> lane & 1))
      continue;
    LaneRequest &request = lanes[lane].request;
    switch (request.operation) {
    case WarpOperation::All:
      request.result = votes == present;
      break;
    case WarpOperation::Any:
      request.result = votes != 0;
      break;
    case WarpOperation::Ballot:
      request.result = votes;
      break;
    case WarpOperation::Barrier:
    case WarpOperation::None:
    case WarpOperation::Together:
      break;
    default: {
      const uint32_t source = sourceLane(request, lane, request.valid);
      if (present >> source & 1)
        request.result = lanes[source].request.value;
      else
        request.operation = WarpOperation::None; // the value would be undefined: meet() reports it
    }
    }
  }
}

static bool isAllowed(const void *address, uint64_t bytes) {
  Unseen unseen;
  return !memoryCheck || memoryCheck(address, bytes);
}

void Block::noteAccess(bool writes, bool isShared, const void *address, uint64_t bytes) {
  const Conflict conflict = accesses_.note(writes, isShared, address, bytes, blockNumber_, self_->linear);
  if (conflict == Conflict::WithBlock)
    fail(writes ? "a write to what another block of the grid has read or written"
                : "a read of what another block of the grid has written");
  if (conflict == Conflict::WithThread)
    fail(writes ? "a write to what another thread has read or written, and no barrier in between"
                : "a read of what another thread has written, and no barrier in between");
}

void Block::countRead(const void *address, uint64_t bytes, const void *from) {
  if (!isAllowed(address, bytes))
    fail("a read outside of allocated memory");
  if (isGuarded(address, bytes))
    fail("a read of memory that AddressSanitizer guards");
  noteRead(address, bytes, from); // first: ThreadSanitizer shows more of a race
  noteAccess(false, false, address, bytes);
  counters_->readBytes += bytes;
}

void Block::countAtomicWrite(const void *address, uint64_t bytes) {
  if (!isAllowed(address, bytes))
    fail("a write outside of allocated memory");
  if (isGuarded(address, bytes))
    fail("a write to memory that AddressSanitizer guards");
  counters_->writtenBytes += bytes;
}

void Block::countWrite(const void *address, uint64_t bytes, const void *from) {
  countAtomicWrite(address, bytes);
  noteWrite(address, bytes, from);
  noteAccess(true, false, address, bytes);
}

void Block::noteShared(bool writes, const void *address, uint64_t bytes, const void *variable, uint64_t variableBytes,
                       const void *from) {
  const uint64_t offset = uint64_t(address) - uint64_t(variable);
  if (offset > variableBytes || bytes > variableBytes - offset)
    fail(writes ? "a write outside of the kernel's shared memory" : "a read outside of the kernel's shared memory");
  (writes ? noteWrite : noteRead)(address, bytes, from);
  noteAccess(writes, true, address, bytes);
}

// The bytes are a NaN of any type while they are on their way: who does not wait for them computes with that.
void Block::copyAsync(const SharedPlace &to, const void *address, uint64_t bytes, const void *from) {
  AsyncCopy copy{.to = to, .bytes = {}, .group = self_->copyGroups};
  if (bytes > kCopyBytes)
    fail("a copy of more bytes than it has room for");
  if (bytes) {
    countRead(address, bytes, from);
    std::memcpy(copy.bytes, address, bytes);
  }
  noteShared(true, to.address, kCopyBytes, to.variable, to.variableBytes, from);
  std::memset(to.address, 0xff, kCopyBytes);
  self_->copies.push_back(copy);
}

void Block::commitCopies() {
  ++self_->copyGroups;
}

void Block::waitForCopies(uint32_t pending, const void *from) {
  std::vector<AsyncCopy> &copies = self_->copies;
  size_t done = 0;
  for (; done < copies.size() && copies[done].group + pending < self_->copyGroups; ++done) {
    const SharedPlace &to = copies[done].to;
    noteShared(true, to.address, kCopyBytes, to.variable, to.variableBytes, from);
    std::memcpy(to.address, copies[done].bytes, kCopyBytes);
  }
  copies.erase(copies.begin(), copies.begin() + ptrdiff_t(done));
}

} // namespace ztc::simt
