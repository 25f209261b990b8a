#include "runtime/Checkpoint/SharedWork.h"
#include "runtime/Core/File.h"
#include "runtime/Core/Sha256.h"
#include "runtime/Ranks/Agreement.h"
#include <algorithm>
#include <cstring>
#include <ctime>
#include <fmt/format.h>
#include <unistd.h>

namespace ztc {

/// Digests of one rank in one exchange.
static constexpr uint64_t kDigestsPerExchange = kMaxExchangeBytes / sizeof(Sha256Digest) / 2;

/// Files that only show whether a folder is the same one everywhere.
static constexpr std::string_view kTokenPrefix = ".ztc-seen-";

/// Those of runs that were killed while they looked.
static void removeTokens(const std::string &folder) {
  if (const StatusOr<std::vector<std::string>> names = listFolder(folder); names.isOk())
    for (const std::string &name : *names)
      if (name.starts_with(kTokenPrefix))
        ::unlink((folder + "/" + name).c_str());
}

Status checkSharedFolder(ControlChannel *control, const std::string &folder) {
  if (!control || control->world() == 1)
    return Status::ok();
  // A name that no rank has looked up before: network file systems remember what was not there.
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  const std::string token =
      fmt::format("{}/{}{}-{}.{}", folder, kTokenPrefix, ::getpid(), int64_t(now.tv_sec), int64_t(now.tv_nsec));
  StatusOr<std::string> made = token;
  if (control->rank() == 0) {
    removeTokens(folder);
    if (const StatusOr<File> file = File::open(token, File::Mode::Create); !file.isOk())
      made = file.status();
  }
  const StatusOr<std::string> path = fromFirstRank(control, "folder token", made);
  ZTC_RETURN_IF_ERROR(path.status());
  const Status seen = agree(
      control, "folder seen",
      pathExists(*path) ? Status::ok()
                        : failedPrecondition(fmt::format("the folder '{}' is not the one that rank 0 sees; all ranks "
                                                         "need the same folder, on a file system that they share",
                                                         folder)));
  if (control->rank() == 0)
    ::unlink(path->c_str());
  return seen;
}

namespace {

/// All pieces of some files in their order; every rank has the same list.
struct FilePiece {
  size_t file;
  uint64_t index;
};

} // namespace

/// The digests of the pieces k = rank, rank + world, ...
static StatusOr<std::vector<Sha256Digest>> hashOwnPieces(ControlChannel *control, const std::string &folder,
                                                         const Manifest &manifest, const std::vector<FilePiece> &pieces,
                                                         std::span<std::byte> staging) {
  const uint32_t rank = control ? control->rank() : 0, world = control ? control->world() : 1;
  std::vector<Sha256Digest> digests;
  for (size_t k = rank; k < pieces.size(); k += world) {
    const ManifestFile &described = manifest.files[pieces[k].file];
    ZTC_ASSIGN_OR_RETURN(const File file, File::open(folder + "/" + described.name, File::Mode::Read));
    ZTC_ASSIGN_OR_RETURN(const Sha256Digest digest, hashPiece(file, described.sizeBytes, pieces[k].index, staging));
    digests.push_back(digest);
    if (control)
      control->progress().addBytes(kManifestPieceBytes);
  }
  return digests;
}

StatusOr<Manifest> describeTogether(ControlChannel *control, const std::string &folder,
                                    const std::vector<std::string> &names, std::span<std::byte> staging) {
  const uint32_t world = control ? control->world() : 1;
  Manifest manifest;
  std::vector<FilePiece> pieces;
  const auto list = [&]() -> Status {
    for (const std::string &name : names) {
      ZTC_ASSIGN_OR_RETURN(const File file, File::open(folder + "/" + name, File::Mode::Read));
      ZTC_ASSIGN_OR_RETURN(const uint64_t size, file.size());
      for (uint64_t piece = 0; piece < manifestPieces(size); ++piece)
        pieces.push_back({manifest.files.size(), piece});
      manifest.files.push_back({name, size, std::vector<std::string>(manifestPieces(size))});
    }
    return Status::ok();
  };
  const Status listed = list();
  StatusOr<std::vector<Sha256Digest>> own =
      listed.isOk() ? hashOwnPieces(control, folder, manifest, pieces, staging) : listed;
  ZTC_RETURN_IF_ERROR(agree(control, "checksums", own.status()));
  // Exchanged in rounds: what one message holds is bounded.
  const uint64_t rounds = (pieces.size() + world * kDigestsPerExchange - 1) / (world * kDigestsPerExchange);
  for (uint64_t round = 0; round < rounds; ++round) {
    const uint64_t first = std::min<uint64_t>(round * kDigestsPerExchange, own->size());
    const auto given = std::span(*own).subspan(first, std::min<uint64_t>(kDigestsPerExchange, own->size() - first));
    std::vector<Bytes> all;
    if (control) {
      ZTC_ASSIGN_OR_RETURN(all, control->allGather("digests", std::as_bytes(given)));
    } else {
      all = {Bytes(std::as_bytes(given).begin(), std::as_bytes(given).end())};
    }
    for (uint32_t rank = 0; rank < world; ++rank)
      for (uint64_t i = 0; i < all[rank].size() / sizeof(Sha256Digest); ++i) {
        const uint64_t k = (round * kDigestsPerExchange + i) * world + rank;
        if (k >= pieces.size())
          return internalError("ranks see other files than rank 0");
        Sha256Digest digest;
        std::memcpy(digest.data(), all[rank].data() + i * sizeof digest, sizeof digest);
        manifest.files[pieces[k].file].sha256[pieces[k].index] = Sha256::hex(digest);
      }
  }
  return manifest;
}

Status writeTogether(const StateContext &context, const std::vector<FileToWrite> &files, float factor,
                     const std::function<void()> &hasRead) {
  const auto write = [&]() -> Status {
    std::vector<File> written;
    for (const FileToWrite &file : files) {
      ZTC_ASSIGN_OR_RETURN(File one, writeTensors(context, *file.planned, file.kind, factor, file.path));
      written.push_back(std::move(one));
    }
    // Whoever waits to change the state does not wait for the disk's last word too.
    if (hasRead)
      hasRead();
    for (const File &file : written)
      ZTC_RETURN_IF_ERROR(file.sync());
    return Status::ok();
  };
  return agree(context.control, "files written", write());
}

} // namespace ztc
