// Collectives between processes on CPUs: direct messages between all ranks, sums taken locally in rank order.
#include "runtime/Collective/Communicators.h"
#include "runtime/Collective/GlooLibrary.h"
#include "runtime/Collective/HostCommunicator.h"
#include "runtime/Collective/PeerSockets.h"
#include "runtime/Format/PlanValidator.h"
#include <algorithm>
#include <csignal>
#include <cstring>
#include <fmt/format.h>
#include <vector>

namespace ztc {
namespace {

/// Lanes: the headers of a call, its even and its odd pieces.
constexpr uint32_t kHeaders = 0, kEven = 1, kOdd = 2;
/// A gather goes in pieces of this size: what is counted moves while a large one runs.
constexpr uint64_t kGatherPieceBytes = uint64_t(32) << 20;

class GlooCommunicator : public HostCommunicator {
public:
  GlooCommunicator(const GlooOptions &options, const ZtcGlooFunctions &functions)
      : HostCommunicator(options.rank, options.world), gloo_(functions), address_(options.address), headers_(world()),
        parts_(world()) {}
  ~GlooCommunicator() override {
    if (handle_)
      gloo_.close(handle_);
  }

  std::string name() const override { return "gloo"; }
  std::string description() const override { return fmt::format("Gloo over TCP, this rank at {}", address_); }

  Status connect(const GlooOptions &options);

protected:
  Status doAllGather(const CallHeader &header, const std::byte *shard, std::byte *full, uint64_t shardBytes) override;
  Status doReduceScatter(const CallHeader &header, std::byte *full, std::byte *scratch) override;
  Status doAllReduce(const CallHeader &header, float *values, float *scratch) override;
  Status doBarrier(const CallHeader &header) override;
  void wake() override { gloo_.abort(handle_); }

private:
  Status toStatus(const ZtcGlooError &error) const {
    if (error.peer >= 0)
      return lost(uint32_t(error.peer), error.message);
    return unavailable(error.message);
  }
  Status send(uint32_t lane, uint32_t peer, uint64_t tag, const void *data, uint64_t bytes);
  Status receive(uint32_t lane, uint32_t peer, uint64_t tag, void *data, uint64_t bytes);
  /// For the messages of a lane from and to every other rank.
  Status waitForAll(uint32_t lane);

  /// Calls body(peer) for the other ranks, beginning with the next one, so that not all talk to rank 0 first.
  template <typename Body> Status forEachPeer(Body &&body) {
    for (uint32_t i = 1; i < world(); ++i)
      ZTC_RETURN_IF_ERROR(body((rank() + i) % world()));
    return Status::ok();
  }

  /// Sends this call's header to all, and begins to receive theirs.
  Status beginCall(const CallHeader &header);
  /// Waits for the other headers: ranks that disagree fail here, before data of the wrong size can arrive.
  Status agree(const CallHeader &header);
  /// Tags of data differ where calls differ: Gloo ends the process where a message is longer than its receive.
  static uint64_t dataTag(const CallHeader &header, uint64_t piece);

  /// Runs a call in pieces, two at a time: `post` begins one, `finish` is called when its receives are complete.
  template <typename Post, typename Finish>
  Status inPieces(const CallHeader &header, uint64_t pieces, Post &&post, Finish &&finish);

  const ZtcGlooFunctions &gloo_;
  ZtcGloo *handle_ = nullptr;
  const std::string address_;
  CallHeader own_;                       ///< being sent
  std::vector<CallHeader> headers_;      ///< by rank, of the call under way
  std::vector<const std::byte *> parts_; ///< by rank, of the sum under way
};

Status GlooCommunicator::connect(const GlooOptions &options) {
  ZTC_ASSIGN_OR_RETURN(std::vector<PeerSocket> sockets, connectPeers(options));
  ZtcGlooError error;
  if (gloo_.open(rank(), world(), &handle_, &error))
    return unavailable(error.message);
  return forEachPeer([&](uint32_t peer) {
    return gloo_.adopt(handle_, peer, sockets[peer].release(), &error)
               ? unavailable(fmt::format("rank {} cannot talk to rank {}: {}", rank(), peer, error.message))
               : Status::ok();
  });
}

Status GlooCommunicator::send(uint32_t lane, uint32_t peer, uint64_t tag, const void *data, uint64_t bytes) {
  ZtcGlooError error;
  return gloo_.send(handle_, lane, peer, tag, data, bytes, &error) ? toStatus(error) : Status::ok();
}
Status GlooCommunicator::receive(uint32_t lane, uint32_t peer, uint64_t tag, void *data, uint64_t bytes) {
  ZtcGlooError error;
  return gloo_.receive(handle_, lane, peer, tag, data, bytes, &error) ? toStatus(error) : Status::ok();
}
Status GlooCommunicator::waitForAll(uint32_t lane) {
  ZtcGlooError error;
  if (gloo_.waitReceives(handle_, lane, world() - 1, &error) || gloo_.waitSends(handle_, lane, world() - 1, &error))
    return toStatus(error);
  return Status::ok();
}

Status GlooCommunicator::beginCall(const CallHeader &header) {
  own_ = header;
  const uint64_t tag = header.sequence << 1; // even: no tag of data
  return forEachPeer([&](uint32_t peer) {
    ZTC_RETURN_IF_ERROR(receive(kHeaders, peer, tag, &headers_[peer], sizeof(CallHeader)));
    return send(kHeaders, peer, tag, &own_, sizeof(CallHeader));
  });
}

Status GlooCommunicator::agree(const CallHeader &header) {
  ZTC_RETURN_IF_ERROR(waitForAll(kHeaders));
  Status status = forEachPeer([&](uint32_t peer) { return compare(header, headers_[peer], peer); });
  if (!status.isOk()) {
    gloo_.abort(handle_); // data may be on its way: a wait that fails drops it
    static_cast<void>(waitForAll(kHeaders).isOk());
  }
  return status;
}

uint64_t GlooCommunicator::dataTag(const CallHeader &header, uint64_t piece) {
  uint64_t hash = 0xcbf29ce484222325; // FNV-1a
  for (uint64_t value : {header.elements, header.scratchBytes, uint64_t(header.kind), uint64_t(header.type)})
    for (int byte = 0; byte < 8; ++byte)
      hash = (hash ^ (value >> (8 * byte) & 0xff)) * 0x100000001b3;
  return (header.sequence & 0xffffff) << 40 | (hash >> 40 & 0xffffff) << 16 | (piece & 0x7fff) << 1 | 1;
}

template <typename Post, typename Finish>
Status GlooCommunicator::inPieces(const CallHeader &header, uint64_t pieces, Post &&post, Finish &&finish) {
  auto complete = [&](uint64_t piece) {
    ZTC_RETURN_IF_ERROR(waitForAll(piece % 2 ? kOdd : kEven));
    finish(piece);
    return Status::ok();
  };
  ZTC_RETURN_IF_ERROR(beginCall(header));
  ZTC_RETURN_IF_ERROR(post(0, kEven));
  ZTC_RETURN_IF_ERROR(agree(header));
  for (uint64_t piece = 1; piece < pieces; ++piece) {
    ZTC_RETURN_IF_ERROR(post(piece, piece % 2 ? kOdd : kEven));
    ZTC_RETURN_IF_ERROR(complete(piece - 1));
  }
  return complete(pieces - 1);
}

Status GlooCommunicator::doAllGather(const CallHeader &header, const std::byte *shard, std::byte *full,
                                     uint64_t shardBytes) {
  const uint64_t pieces = std::max<uint64_t>(1, (shardBytes + kGatherPieceBytes - 1) / kGatherPieceBytes);
  auto bytesOf = [&](uint64_t piece) { return std::min(kGatherPieceBytes, shardBytes - piece * kGatherPieceBytes); };
  return inPieces(
      header, pieces,
      [&](uint64_t piece, uint32_t lane) {
        const uint64_t tag = dataTag(header, piece), at = piece * kGatherPieceBytes, bytes = bytesOf(piece);
        return forEachPeer([&](uint32_t peer) {
          ZTC_RETURN_IF_ERROR(receive(lane, peer, tag, full + peer * shardBytes + at, bytes));
          return send(lane, peer, tag, shard + at, bytes);
        });
      },
      [&](uint64_t piece) { allGatherBytes_.fetch_add((world() - 1) * bytesOf(piece), std::memory_order_relaxed); });
}

/// An all-to-all in pieces: half of the scratch receives a piece from every other rank while the other half is summed.
Status GlooCommunicator::doReduceScatter(const CallHeader &header, std::byte *full, std::byte *scratch) {
  const uint64_t elementBytes = dataTypeBytes(header.type), others = world() - 1;
  const uint64_t room = header.scratchBytes / (2 * others * elementBytes) / 16 * 16; // whole cache lines
  const uint64_t pieceElements = std::min(room, std::max<uint64_t>(1, header.elements));
  const uint64_t pieces = std::max<uint64_t>(1, (header.elements + pieceElements - 1) / pieceElements);
  auto elementsOf = [&](uint64_t piece) { return std::min(pieceElements, header.elements - piece * pieceElements); };
  auto received = [&](uint64_t piece, uint32_t peer) {
    const uint64_t index = (piece % 2) * others + (peer < rank() ? peer : peer - 1);
    return scratch + index * room * elementBytes;
  };
  auto place = [&](uint64_t piece, uint32_t owner) {
    return full + (owner * header.elements + piece * pieceElements) * elementBytes;
  };
  return inPieces(
      header, pieces,
      [&](uint64_t piece, uint32_t lane) {
        const uint64_t tag = dataTag(header, piece), bytes = elementsOf(piece) * elementBytes;
        return forEachPeer([&](uint32_t peer) {
          ZTC_RETURN_IF_ERROR(receive(lane, peer, tag, received(piece, peer), bytes));
          return send(lane, peer, tag, place(piece, peer), bytes);
        });
      },
      [&](uint64_t piece) {
        for (uint32_t r = 0; r < world(); ++r)
          parts_[r] = r == rank() ? place(piece, r) : received(piece, r);
        sumInRankOrder(place(piece, rank()), parts_.data(), world(), elementsOf(piece), header.type);
        reduceScatterBytes_.fetch_add(others * elementsOf(piece) * elementBytes, std::memory_order_relaxed);
      });
}

Status GlooCommunicator::doAllReduce(const CallHeader &header, float *values, float *scratch) {
  const uint64_t count = header.elements, bytes = count * sizeof(float);
  std::memcpy(scratch + rank() * count, values, bytes);
  return inPieces(
      header, 1,
      [&](uint64_t, uint32_t lane) {
        const uint64_t tag = dataTag(header, 0);
        return forEachPeer([&](uint32_t peer) {
          ZTC_RETURN_IF_ERROR(receive(lane, peer, tag, scratch + peer * count, bytes));
          return send(lane, peer, tag, scratch + rank() * count, bytes);
        });
      },
      [&](uint64_t) {
        for (uint32_t r = 0; r < world(); ++r)
          parts_[r] = reinterpret_cast<const std::byte *>(scratch + r * count);
        sumInRankOrder(values, parts_.data(), world(), count, plan::F32);
        allReduceBytes_.fetch_add((world() - 1) * bytes, std::memory_order_relaxed);
      });
}

/// Everybody's header has arrived: everybody was here.
Status GlooCommunicator::doBarrier(const CallHeader &header) {
  ZTC_RETURN_IF_ERROR(beginCall(header));
  return agree(header);
}

/// A write to a connection that the peer has closed raises SIGPIPE, and Gloo does not prevent it.
void ignoreBrokenPipes() {
  struct sigaction action{};
  if (sigaction(SIGPIPE, nullptr, &action) == 0 && action.sa_handler == SIG_DFL) {
    action.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &action, nullptr);
  }
}

} // namespace

StatusOr<std::unique_ptr<Communicator>> createGlooCommunicator(const GlooOptions &options) {
  if (options.world == 0 || options.rank >= options.world)
    return invalidArgument(fmt::format("rank {} of {}", options.rank, options.world));
  ZTC_ASSIGN_OR_RETURN(const ZtcGlooFunctions *functions, loadGlooModule(options.library));
  ignoreBrokenPipes();
  auto made = std::make_unique<GlooCommunicator>(options, *functions);
  ZTC_RETURN_IF_ERROR(made->connect(options));
  return StatusOr<std::unique_ptr<Communicator>>(std::move(made));
}

} // namespace ztc
