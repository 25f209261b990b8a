// manifest.json of a checkpoint: what files it has, how large, and a checksum for every 64 MiB.
//
//   {"version": 1, "files": [{"name": "model-00001-of-00001.safetensors", "size": 533760, "sha256": ["..."]}, ...]}
#pragma once
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

/// Reads `folder`/`name` through `staging` (any size above 0) and fills in size and checksums.
StatusOr<ManifestFile> describeFile(const std::string &folder, const std::string &name, std::span<std::byte> staging);

std::string printManifest(const Manifest &manifest);
StatusOr<Manifest> parseManifest(std::string_view json, const std::string &path);
/// NotFound where the folder has none.
StatusOr<Manifest> readManifest(const std::string &folder);

/// DataLoss naming the first file of `folder` that is missing, of another size or, with `checksums`, of another
/// content.
Status verifyManifest(const Manifest &manifest, const std::string &folder, bool checksums,
                      std::span<std::byte> staging);

} // namespace ztc
