// manifest.json of a checkpoint: what files it has, how large, and a checksum for every 64 MiB.
//
//   {"version": 1, "files": [{"name": "model-00001-of-00001.safetensors", "size": 533760, "sha256": ["..."]}, ...]}
#pragma once
#include "runtime/Core/File.h"
#include "runtime/Core/Sha256.h"
#include "runtime/Core/Status.h"
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ztc {

inline constexpr uint64_t kManifestPieceBytes = uint64_t(64) << 20;

struct ManifestFile {
  std::string name;
  uint64_t sizeBytes = 0;
  std::vector<std::string> sha256; ///< by piece of 64 MiB, the last one shorter
};

struct Manifest {
  std::vector<ManifestFile> files;
};

/// Pieces of a file of so many bytes.
constexpr uint64_t manifestPieces(uint64_t sizeBytes) {
  return (sizeBytes + kManifestPieceBytes - 1) / kManifestPieceBytes;
}

/// The checksum of one piece of a file of `sizeBytes`, read through `staging` (any size above 0).
StatusOr<Sha256Digest> hashPiece(const File &file, uint64_t sizeBytes, uint64_t piece, std::span<std::byte> staging);

std::string printManifest(const Manifest &manifest);
StatusOr<Manifest> parseManifest(std::string_view json, const std::string &path);

/// DataLoss naming the first file of `folder` that is missing or of another size.
Status verifySizes(const Manifest &manifest, const std::string &folder);
/// DataLoss naming the first piece whose checksum in `found`, the same files as read, is not the manifest's.
Status compareChecksums(const Manifest &manifest, const Manifest &found, const std::string &folder);

} // namespace ztc
