#include "runtime/Collective/HostCommunicator.h"
#include "runtime/Format/PlanValidator.h"
#include <algorithm>
#include <cstring>
#include <fmt/format.h>

namespace ztc {

static const char *kindName(CollectiveKind kind) {
  constexpr std::array kNames = {"all_gather", "reduce_scatter", "all_reduce", "barrier", "all_reduce"};
  const auto index = static_cast<size_t>(kind);
  return index < kNames.size() ? kNames[index] : "unknown collective"; // headers come from other processes
}

std::string CallHeader::name() const {
  std::string given(label.data(), strnlen(label.data(), label.size()));
  const char *name = kindName(kind);
  if (given.find(name) != std::string::npos)
    return given;
  return given.empty() ? name : fmt::format("{} {}", name, given);
}

std::string CallHeader::text() const {
  switch (kind) {
  case CollectiveKind::AllGather:
    return fmt::format("{} of {} {} elements a rank", name(), elements, dataTypeName(type));
  case CollectiveKind::ReduceScatter:
    return fmt::format("{} of {} {} elements a rank with {} bytes of scratch", name(), elements, dataTypeName(type),
                       scratchBytes);
  case CollectiveKind::AllReduce:
    return fmt::format("{} of {} numbers", name(), elements);
  case CollectiveKind::AllReduceMax:
    return fmt::format("{} of the maxima of {} numbers", name(), elements);
  case CollectiveKind::Barrier:
    break;
  }
  return name();
}

Status HostCommunicator::compare(const CallHeader &ours, const CallHeader &theirs, uint32_t peer) const {
  if (std::memcmp(&ours, &theirs, sizeof(CallHeader)) == 0)
    return Status::ok();
  return failedPrecondition(fmt::format("ranks disagree about collective {}: rank {} calls {}, rank {} calls {}",
                                        ours.sequence, rank(), ours.text(), peer, theirs.text()));
}

Status HostCommunicator::lost(uint32_t peer, const std::string &why) {
  return unavailable(fmt::format("rank {} is lost: {}", peer, why));
}

StatusOr<CallHeader> HostCommunicator::begin(CollectiveKind kind, uint64_t elements, plan::DataType type,
                                             uint64_t scratchBytes, const CollectiveCall &call) {
  CallHeader header;
  header.sequence = ++sequence_;
  header.elements = elements;
  header.scratchBytes = scratchBytes;
  header.kind = kind;
  header.type = type;
  std::copy_n(call.label.data(), std::min(call.label.size(), header.label.size() - 1), header.label.data());
  if (hasFailed())
    return end(header, status());
  if (call.stream)
    return end(header, invalidArgument("collectives on the host have no streams"));
  uint64_t bytes = 0;
  if (dataTypeBytes(type) == 0 || __builtin_mul_overflow(elements, dataTypeBytes(type) * world(), &bytes))
    return end(header, invalidArgument(fmt::format("{} elements of type {}", elements, dataTypeName(type))));
  return header;
}

Status HostCommunicator::end(const CallHeader &header, Status status) {
  if (status.isOk())
    return status;
  std::lock_guard lock(mutex_);
  // What ends after abort() is its consequence, whatever the transport says.
  if (!error_.isOk())
    return aborted_ ? error_.withContext(header.name()) : error_;
  error_ = status.withContext(header.name());
  failed_.store(true, std::memory_order_release);
  return error_;
}

Status HostCommunicator::allGather(const void *shard, void *full, uint64_t shardElements, plan::DataType type,
                                   const CollectiveCall &call) {
  ZTC_ASSIGN_OR_RETURN(const CallHeader header, begin(CollectiveKind::AllGather, shardElements, type, 0, call));
  const uint64_t bytes = shardElements * dataTypeBytes(type);
  const auto *from = static_cast<const std::byte *>(shard);
  auto *to = static_cast<std::byte *>(full);
  std::byte *own = to + rank() * bytes;
  if (from != own && from < to + world() * bytes && to < from + bytes)
    return end(header, invalidArgument("the shard lies in the result, but not at this rank's place"));
  if (from != own)
    std::memcpy(own, from, bytes);
  if (world() == 1)
    return Status::ok();
  return end(header, doAllGather(header, own, to, bytes));
}

Status HostCommunicator::reduceScatter(void *full, uint64_t shardElements, plan::DataType type, void *scratch,
                                       uint64_t scratchBytes, const CollectiveCall &call) {
  ZTC_ASSIGN_OR_RETURN(const CallHeader header,
                       begin(CollectiveKind::ReduceScatter, shardElements, type, scratchBytes, call));
  if (type != plan::F32 && type != plan::BF16 && type != plan::F16)
    return end(header,
               invalidArgument(fmt::format("sums of type {}: f32, bf16 and f16 are known", dataTypeName(type))));
  if (world() == 1)
    return Status::ok();
  const uint64_t needed = minimumScratchBytes(world(), dataTypeBytes(type));
  if (scratchBytes < needed)
    return end(header, invalidArgument(fmt::format("{} bytes of scratch, {} needed", scratchBytes, needed)));
  return end(header, doReduceScatter(header, static_cast<std::byte *>(full), static_cast<std::byte *>(scratch)));
}

Status HostCommunicator::allReduce(float *values, uint64_t count, void *scratch, uint64_t scratchBytes,
                                   const CollectiveCall &call) {
  ZTC_ASSIGN_OR_RETURN(const CallHeader header, begin(CollectiveKind::AllReduce, count, plan::F32, 0, call));
  if (world() == 1)
    return Status::ok();
  const uint64_t needed = count * world() * sizeof(float);
  if (scratchBytes < needed)
    return end(header, invalidArgument(fmt::format("{} bytes of scratch, {} needed", scratchBytes, needed)));
  return end(header, doAllReduce(header, values, static_cast<float *>(scratch)));
}

/// What all ranks have is gathered; of numbers that are not negative the bits order as the numbers do, NaN after all
/// others.
Status HostCommunicator::allReduceMax(float *values, uint64_t count, void *scratch, uint64_t scratchBytes,
                                      const CollectiveCall &call) {
  ZTC_ASSIGN_OR_RETURN(const CallHeader header, begin(CollectiveKind::AllReduceMax, count, plan::F32, 0, call));
  if (world() == 1)
    return Status::ok();
  const uint64_t bytes = count * sizeof(float), needed = bytes * world();
  if (scratchBytes < needed)
    return end(header, invalidArgument(fmt::format("{} bytes of scratch, {} needed", scratchBytes, needed)));
  auto *all = static_cast<std::byte *>(scratch);
  std::memcpy(all + rank() * bytes, values, bytes);
  if (Status gathered = doAllGather(header, all + rank() * bytes, all, bytes); !gathered.isOk())
    return end(header, gathered);
  allGatherBytes_.fetch_sub((world() - 1) * bytes, std::memory_order_relaxed);
  allReduceBytes_.fetch_add((world() - 1) * bytes, std::memory_order_relaxed);
  for (uint32_t r = 0; r < world(); ++r)
    for (uint64_t i = 0; i < count; ++i) {
      uint32_t own = 0, other = 0;
      std::memcpy(&own, values + i, sizeof own);
      std::memcpy(&other, all + r * bytes + i * sizeof other, sizeof other);
      own = std::max(own, other);
      std::memcpy(values + i, &own, sizeof own);
    }
  return Status::ok();
}

Status HostCommunicator::barrier(const CollectiveCall &call) {
  ZTC_ASSIGN_OR_RETURN(const CallHeader header, begin(CollectiveKind::Barrier, 0, plan::F32, 0, call));
  return world() == 1 ? Status::ok() : end(header, doBarrier(header));
}

Status HostCommunicator::status() const {
  std::lock_guard lock(mutex_);
  return error_;
}

void HostCommunicator::abort(const std::string &reason) {
  {
    std::lock_guard lock(mutex_);
    if (error_.isOk()) {
      error_ = unavailable("the collectives were ended: " + reason);
      aborted_ = true;
    }
    failed_.store(true, std::memory_order_release);
  }
  wake();
}

} // namespace ztc
