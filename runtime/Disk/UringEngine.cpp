// io_uring by its system calls (io_uring(7), io_uring_setup(2), io_uring_enter(2)): two rings that are shared with the
// kernel, one of requests, one of outcomes.
#include "runtime/Core/File.h"
#include "runtime/Disk/DiskEngine.h"
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <vector>

namespace ztc {
namespace {

/// Memory that is shared with the kernel.
class Mapping {
public:
  ~Mapping() {
    if (base_)
      munmap(base_, bytes_);
  }
  bool map(int ring, uint64_t offset, size_t bytes) {
    void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, off_t(offset));
    if (memory == MAP_FAILED)
      return false;
    base_ = memory;
    bytes_ = bytes;
    return true;
  }
  template <typename T> T *at(uint32_t offset) const {
    return reinterpret_cast<T *>(static_cast<std::byte *>(base_) + offset);
  }

private:
  void *base_ = nullptr;
  size_t bytes_ = 0;
};

class UringEngine : public DiskEngine {
public:
  UringEngine(int file, std::string path) : file_(file), path_(std::move(path)) {}
  ~UringEngine() override {
    if (ring_ >= 0)
      close(ring_);
  }

  Status create(unsigned depth) {
    io_uring_params parameters{};
    ring_ = int(syscall(SYS_io_uring_setup, depth, &parameters));
    if (ring_ < 0)
      return failedPrecondition(fmt::format("io_uring: {}", std::strerror(errno)));
    depth_ = parameters.sq_entries;
    const size_t requests = parameters.sq_off.array + parameters.sq_entries * sizeof(uint32_t);
    const size_t outcomes = parameters.cq_off.cqes + parameters.cq_entries * sizeof(io_uring_cqe);
    if (!submission_.map(ring_, IORING_OFF_SQ_RING, requests) ||
        !completion_.map(ring_, IORING_OFF_CQ_RING, outcomes) ||
        !entries_.map(ring_, IORING_OFF_SQES, parameters.sq_entries * sizeof(io_uring_sqe)))
      return failedPrecondition(fmt::format("io_uring's rings: {}", std::strerror(errno)));
    tail_ = submission_.at<uint32_t>(parameters.sq_off.tail);
    mask_ = *submission_.at<uint32_t>(parameters.sq_off.ring_mask);
    array_ = submission_.at<uint32_t>(parameters.sq_off.array);
    outcomeHead_ = completion_.at<uint32_t>(parameters.cq_off.head);
    outcomeTail_ = completion_.at<uint32_t>(parameters.cq_off.tail);
    outcomeMask_ = *completion_.at<uint32_t>(parameters.cq_off.ring_mask);
    outcomes_ = completion_.at<io_uring_cqe>(parameters.cq_off.cqes);
    flying_.resize(depth_);
    for (uint32_t i = 0; i < depth_; ++i)
      free_.push_back(i);
    return Status::ok();
  }

  std::string name() const override { return fmt::format("io_uring, {} in flight", depth_); }

  Status run(std::span<const DiskTransfer> transfers) override {
    Status status;
    size_t next = 0;
    uint32_t waiting = 0; ///< requests in the ring that the kernel has not been told of
    // After an error nothing new is begun, but what flies is waited for: it writes into the caller's memory.
    while ((status.isOk() && next < transfers.size()) || free_.size() < depth_) {
      while (status.isOk() && next < transfers.size() && !free_.empty()) {
        const uint32_t place = free_.back();
        free_.pop_back();
        flying_[place] = transfers[next++];
        put(place);
        ++waiting;
      }
      const long taken = syscall(SYS_io_uring_enter, ring_, waiting, 1u, unsigned(IORING_ENTER_GETEVENTS), nullptr, 0);
      if (taken < 0 && errno != EINTR && errno != EAGAIN && errno != EBUSY)
        return fileError("read or write", path_, errno);
      if (taken > 0)
        waiting -= uint32_t(taken);
      waiting += takeOutcomes(status);
    }
    return status;
  }

private:
  /// Writes the request of a place into the ring.
  void put(uint32_t place) {
    const DiskTransfer &transfer = flying_[place];
    const uint32_t tail = *tail_, index = tail & mask_;
    io_uring_sqe &entry = entries_.at<io_uring_sqe>(0)[index];
    entry = {};
    entry.opcode = transfer.isWrite ? IORING_OP_WRITE : IORING_OP_READ;
    entry.fd = file_;
    entry.addr = reinterpret_cast<uint64_t>(transfer.memory);
    entry.len = uint32_t(transfer.bytes);
    entry.off = transfer.offset;
    entry.user_data = place;
    array_[index] = index;
    std::atomic_ref(*tail_).store(tail + 1, std::memory_order_release);
  }

  /// Returns how many were put into the ring again: those that were done in part.
  uint32_t takeOutcomes(Status &status) {
    uint32_t again = 0, head = *outcomeHead_;
    for (; head != std::atomic_ref(*outcomeTail_).load(std::memory_order_acquire); ++head) {
      const io_uring_cqe outcome = outcomes_[head & outcomeMask_];
      const auto place = uint32_t(outcome.user_data);
      DiskTransfer &transfer = flying_[place];
      const bool repeats = outcome.res == -EINTR || outcome.res == -EAGAIN;
      if (outcome.res < 0 && !repeats && status.isOk())
        status = fileError(transfer.isWrite ? "write" : "read", path_, -outcome.res);
      if (outcome.res == 0 && status.isOk())
        status = dataLoss(fmt::format("{}: ends at byte {}: it was cut while the run used it", path_, transfer.offset));
      const uint64_t done = outcome.res > 0 ? uint64_t(outcome.res) : 0;
      transfer.offset += done;
      transfer.memory += done;
      transfer.bytes -= std::min(done, transfer.bytes);
      if (transfer.bytes && status.isOk()) {
        put(place);
        ++again;
      } else {
        free_.push_back(place);
      }
    }
    std::atomic_ref(*outcomeHead_).store(head, std::memory_order_release);
    return again;
  }

  const int file_;
  const std::string path_;
  int ring_ = -1;
  uint32_t depth_ = 0;
  Mapping submission_, completion_, entries_;
  uint32_t *tail_ = nullptr, *array_ = nullptr, *outcomeHead_ = nullptr, *outcomeTail_ = nullptr;
  uint32_t mask_ = 0, outcomeMask_ = 0;
  io_uring_cqe *outcomes_ = nullptr;
  std::vector<DiskTransfer> flying_; ///< by place: what is left of it
  std::vector<uint32_t> free_;       ///< places
};

} // namespace

StatusOr<std::unique_ptr<DiskEngine>> createUringEngine(int file, std::string path, unsigned depth) {
  auto engine = std::make_unique<UringEngine>(file, std::move(path));
  ZTC_RETURN_IF_ERROR(engine->create(depth));
  return StatusOr<std::unique_ptr<DiskEngine>>(std::move(engine));
}

} // namespace ztc
