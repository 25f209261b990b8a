#include "runtime/Device/cuda/CudaStaging.h"
#include <algorithm>
#include <cstring>

namespace ztc {

PinnedStaging::~PinnedStaging() {
  for (cuda::Event event : events_)
    if (event)
      driver_.cuEventDestroy_v2(event);
  if (memory_)
    driver_.cuMemFreeHost(memory_);
}

Status PinnedStaging::create(cuda::Stream stream) {
  stream_ = stream;
  void *memory = nullptr;
  ZTC_RETURN_IF_ERROR(driver_.check(driver_.cuMemHostAlloc(&memory, kBytes, 0), "cuMemHostAlloc"));
  memory_ = static_cast<std::byte *>(memory);
  for (cuda::Event &event : events_)
    ZTC_RETURN_IF_ERROR(driver_.check(driver_.cuEventCreate(&event, cuda::kEventDisableTiming), "cuEventCreate"));
  return Status::ok();
}

Status PinnedStaging::take(uint64_t bytes) {
  constexpr uint64_t kAlignment = 256;
  const uint64_t size = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (head_ + size > kBytes)
    head_ = 0;
  const Piece next{head_, head_ + size};
  // Pieces lie in the ring in the order of their numbers: what overlaps are the oldest.
  for (uint64_t number = taken_; number > free_; --number) {
    const Piece &other = pieces_[(number - 1) % kMostPieces];
    if (other.begin < next.end && next.begin < other.end)
      ZTC_RETURN_IF_ERROR(wait(number - 1));
  }
  if (taken_ - free_ == kMostPieces)
    ZTC_RETURN_IF_ERROR(wait(free_));
  pieces_[taken_ % kMostPieces] = next;
  head_ = next.end;
  return Status::ok();
}

Status PinnedStaging::enqueued() {
  ZTC_RETURN_IF_ERROR(driver_.check(driver_.cuEventRecord(events_[taken_ % kMostPieces], stream_), "cuEventRecord"));
  ++taken_;
  return Status::ok();
}

Status PinnedStaging::wait(uint64_t number) {
  ZTC_RETURN_IF_ERROR(driver_.check(driver_.cuEventSynchronize(events_[number % kMostPieces]), "cuEventSynchronize"));
  free_ = std::max(free_, number + 1);
  return Status::ok();
}

Status PinnedStaging::upload(cuda::Address to, const void *from, uint64_t bytes) {
  for (uint64_t at = 0; at < bytes; at += kPieceBytes) {
    const uint64_t count = std::min(kPieceBytes, bytes - at);
    ZTC_RETURN_IF_ERROR(take(count));
    std::memcpy(memory(taken_), static_cast<const std::byte *>(from) + at, count);
    ZTC_RETURN_IF_ERROR(
        driver_.check(driver_.cuMemcpyHtoDAsync_v2(to + at, memory(taken_), count, stream_), "cuMemcpyHtoDAsync"));
    ZTC_RETURN_IF_ERROR(enqueued());
  }
  return Status::ok();
}

Status PinnedStaging::download(void *to, cuda::Address from, uint64_t bytes) {
  // One piece is on its way while the one before is copied out.
  uint64_t landed = 0;
  const auto land = [&](uint64_t number) {
    ZTC_RETURN_IF_ERROR(wait(number));
    const uint64_t count = std::min(kPieceBytes, bytes - landed);
    std::memcpy(static_cast<std::byte *>(to) + landed, memory(number), count);
    landed += count;
    return Status::ok();
  };
  for (uint64_t at = 0; at < bytes; at += kPieceBytes) {
    const uint64_t count = std::min(kPieceBytes, bytes - at);
    ZTC_RETURN_IF_ERROR(take(count));
    ZTC_RETURN_IF_ERROR(
        driver_.check(driver_.cuMemcpyDtoHAsync_v2(memory(taken_), from + at, count, stream_), "cuMemcpyDtoHAsync"));
    ZTC_RETURN_IF_ERROR(enqueued());
    if (at > 0)
      ZTC_RETURN_IF_ERROR(land(taken_ - 2));
  }
  return bytes ? land(taken_ - 1) : Status::ok();
}

} // namespace ztc
