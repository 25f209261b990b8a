// Ranks as threads of one process: everybody reads the others' memory where it lies.
#include "runtime/Collective/Communicators.h"
#include "runtime/Collective/HostCommunicator.h"
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

namespace ztc {
namespace {

/// Where the ranks of a process meet. A collective is: everybody shows its call and its memory (meet), everybody
/// reads what it needs, everybody has read (meet).
class MeetingPlace {
public:
  explicit MeetingPlace(uint32_t world) : seats(world) {}

  struct Seat {
    CallHeader header;
    std::byte *memory = nullptr; ///< of this rank, for the others to read
    bool here = false;           ///< waits in the meeting now under way
    bool reading = false;        ///< between the two meetings: reads what others have shown
    bool lost = false;           ///< its communicator is gone
  };

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Seat> seats;
  uint32_t arrived = 0;
  uint64_t meetings = 0; ///< held so far
};

class ThreadCommunicator : public HostCommunicator {
public:
  ThreadCommunicator(uint32_t rank, std::shared_ptr<MeetingPlace> place)
      : HostCommunicator(rank, uint32_t(place->seats.size())), place_(std::move(place)), parts_(world()) {}

  /// Others may be reading this rank's memory: it must not go away under them.
  ~ThreadCommunicator() override {
    std::unique_lock lock(place_->mutex);
    place_->seats[rank()].lost = true;
    place_->changed.notify_all();
    place_->changed.wait(lock, [&] {
      for (const MeetingPlace::Seat &seat : place_->seats)
        if (seat.reading)
          return false;
      return true;
    });
  }

  std::string name() const override { return "threads"; }
  std::string description() const override { return "threads of one process"; }

protected:
  Status doAllGather(const CallHeader &header, const std::byte *shard, std::byte *full, uint64_t shardBytes) override {
    ZTC_RETURN_IF_ERROR(show(header, const_cast<std::byte *>(shard)));
    for (uint32_t r = 0; r < world(); ++r)
      if (r != rank())
        std::memcpy(full + r * shardBytes, parts_[r], shardBytes);
    ZTC_RETURN_IF_ERROR(leave());
    allGatherBytes_.fetch_add((world() - 1) * shardBytes, std::memory_order_relaxed);
    return Status::ok();
  }

  Status doReduceScatter(const CallHeader &header, std::byte *full, std::byte *) override {
    ZTC_RETURN_IF_ERROR(show(header, full));
    const uint64_t shardBytes = header.elements * (header.type == plan::F32 ? 4 : 2);
    for (const std::byte *&part : parts_)
      part += rank() * shardBytes;
    // Nobody else reads this rank's own shard of `full`, so that the sum may go there at once.
    sumInRankOrder(full + rank() * shardBytes, parts_.data(), world(), header.elements, header.type);
    ZTC_RETURN_IF_ERROR(leave());
    reduceScatterBytes_.fetch_add((world() - 1) * shardBytes, std::memory_order_relaxed);
    return Status::ok();
  }

  Status doAllReduce(const CallHeader &header, float *values, float *scratch) override {
    ZTC_RETURN_IF_ERROR(show(header, reinterpret_cast<std::byte *>(values)));
    sumInRankOrder(scratch, parts_.data(), world(), header.elements, plan::F32);
    ZTC_RETURN_IF_ERROR(leave());
    std::memcpy(values, scratch, header.elements * sizeof(float));
    allReduceBytes_.fetch_add((world() - 1) * header.elements * sizeof(float), std::memory_order_relaxed);
    return Status::ok();
  }

  Status doBarrier(const CallHeader &header) override {
    ZTC_RETURN_IF_ERROR(show(header, nullptr));
    return leave();
  }

  void wake() override {
    std::lock_guard lock(place_->mutex);
    place_->changed.notify_all();
  }

private:
  /// The first meeting. Afterwards parts_ is what every rank has shown.
  Status show(const CallHeader &header, std::byte *memory) {
    std::unique_lock lock(place_->mutex);
    MeetingPlace::Seat &own = place_->seats[rank()];
    own.header = header;
    own.memory = memory;
    ZTC_RETURN_IF_ERROR(meet(lock));
    for (uint32_t r = 0; r < world(); ++r) {
      ZTC_RETURN_IF_ERROR(compare(header, place_->seats[r].header, r));
      parts_[r] = place_->seats[r].memory;
    }
    for (const MeetingPlace::Seat &seat : place_->seats)
      if (seat.lost)
        return lost(uint32_t(&seat - place_->seats.data()), "it ended");
    own.reading = true;
    return Status::ok();
  }

  /// The second meeting.
  Status leave() {
    std::unique_lock lock(place_->mutex);
    place_->seats[rank()].reading = false;
    place_->changed.notify_all();
    return meet(lock);
  }

  /// Waits until all are here, one of them is lost, or this rank is told to stop.
  Status meet(std::unique_lock<std::mutex> &lock) {
    MeetingPlace &place = *place_;
    const uint64_t meeting = place.meetings;
    place.seats[rank()].here = true;
    if (++place.arrived == world()) {
      place.arrived = 0;
      for (MeetingPlace::Seat &seat : place.seats)
        seat.here = false;
      ++place.meetings;
      place.changed.notify_all();
      return Status::ok();
    }
    while (true) {
      if (place.meetings != meeting)
        return Status::ok();
      Status status = hasFailed() ? this->status() : absent();
      if (!status.isOk()) {
        place.seats[rank()].here = false;
        --place.arrived;
        return status;
      }
      place.changed.wait(lock);
    }
  }

  Status absent() const {
    for (uint32_t r = 0; r < world(); ++r)
      if (place_->seats[r].lost && !place_->seats[r].here)
        return lost(r, "it ended");
    return Status::ok();
  }

  std::shared_ptr<MeetingPlace> place_;
  std::vector<const std::byte *> parts_; ///< by rank
};

} // namespace

std::vector<std::unique_ptr<Communicator>> createThreadCommunicators(uint32_t world) {
  auto place = std::make_shared<MeetingPlace>(world);
  std::vector<std::unique_ptr<Communicator>> all;
  for (uint32_t rank = 0; rank < world; ++rank)
    all.push_back(std::make_unique<ThreadCommunicator>(rank, place));
  return all;
}

} // namespace ztc
