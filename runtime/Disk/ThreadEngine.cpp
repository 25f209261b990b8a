#include "runtime/Core/File.h"
#include "runtime/Disk/DiskEngine.h"
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <fmt/format.h>
#include <mutex>
#include <thread>
#include <unistd.h>
#include <vector>

namespace ztc {
namespace {

class ThreadEngine : public DiskEngine {
public:
  ThreadEngine(int file, std::string path, unsigned threads) : file_(file), path_(std::move(path)) {
    for (unsigned i = 0; i < threads; ++i)
      threads_.emplace_back([this] { serve(); });
  }

  ~ThreadEngine() override {
    {
      std::lock_guard lock(mutex_);
      isEnding_ = true;
    }
    begin_.notify_all();
    for (std::thread &thread : threads_)
      thread.join();
  }

  std::string name() const override { return fmt::format("{} threads", threads_.size()); }

  Status run(std::span<const DiskTransfer> transfers) override {
    std::unique_lock lock(mutex_);
    transfers_ = transfers;
    next_.store(0, std::memory_order_relaxed);
    working_ = threads_.size();
    error_ = Status::ok();
    ++round_;
    begin_.notify_all();
    end_.wait(lock, [this] { return working_ == 0; });
    return error_;
  }

private:
  void serve() {
    uint64_t seen = 0;
    for (;;) {
      std::unique_lock lock(mutex_);
      begin_.wait(lock, [&] { return isEnding_ || round_ != seen; });
      if (isEnding_)
        return;
      seen = round_;
      const std::span<const DiskTransfer> transfers = transfers_;
      lock.unlock();
      Status status;
      for (size_t i; status.isOk() && (i = next_.fetch_add(1, std::memory_order_relaxed)) < transfers.size();)
        status = carry(transfers[i]);
      lock.lock();
      if (!status.isOk() && error_.isOk())
        error_ = std::move(status);
      if (--working_ == 0)
        end_.notify_one();
    }
  }

  Status carry(DiskTransfer transfer) const {
    while (transfer.bytes) {
      const ssize_t done = transfer.isWrite ? pwrite(file_, transfer.memory, transfer.bytes, off_t(transfer.offset))
                                            : pread(file_, transfer.memory, transfer.bytes, off_t(transfer.offset));
      if (done < 0 && errno == EINTR)
        continue;
      if (done < 0)
        return fileError(transfer.isWrite ? "write" : "read", path_, errno);
      if (done == 0)
        return dataLoss(fmt::format("{}: ends at byte {}: it was cut while the run used it", path_, transfer.offset));
      transfer.offset += uint64_t(done);
      transfer.memory += done;
      transfer.bytes -= uint64_t(done);
    }
    return Status::ok();
  }

  const int file_;
  const std::string path_;
  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable begin_, end_;
  std::span<const DiskTransfer> transfers_;
  std::atomic<size_t> next_{0};
  uint64_t round_ = 0;
  size_t working_ = 0;
  bool isEnding_ = false;
  Status error_;
};

} // namespace

std::unique_ptr<DiskEngine> createThreadEngine(int file, std::string path, unsigned threads) {
  return std::make_unique<ThreadEngine>(file, std::move(path), threads);
}

} // namespace ztc
