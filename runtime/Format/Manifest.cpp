#include "runtime/Format/Manifest.h"
#include "runtime/Core/File.h"
#include "runtime/Core/Json.h"
#include "runtime/Core/Sha256.h"
#include <algorithm>
#include <fmt/format.h>

namespace ztc {

using Json = nlohmann::ordered_json;

StatusOr<Sha256Digest> hashPiece(const File &file, uint64_t sizeBytes, uint64_t piece, std::span<std::byte> staging) {
  const uint64_t begin = piece * kManifestPieceBytes, end = std::min(begin + kManifestPieceBytes, sizeBytes);
  Sha256 hash;
  for (uint64_t at = begin; at < end;) {
    const uint64_t bytes = std::min<uint64_t>(staging.size(), end - at);
    ZTC_RETURN_IF_ERROR(file.readAt(at, staging.data(), bytes));
    hash.update(staging.data(), bytes);
    at += bytes;
  }
  return hash.finish();
}

std::string printManifest(const Manifest &manifest) {
  Json files = Json::array();
  for (const ManifestFile &file : manifest.files)
    files.push_back({{"name", file.name}, {"size", file.sizeBytes}, {"sha256", file.sha256}});
  const Json json = {{"version", 1}, {"files", files}};
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

static std::optional<ManifestFile> parseFile(const Json &json) {
  if (!json.is_object() || !json.contains("name") || !json.contains("size") || !json.contains("sha256"))
    return std::nullopt;
  const auto *name = json["name"].get_ptr<const std::string *>();
  const auto *size = json["size"].get_ptr<const Json::number_unsigned_t *>();
  if (!name || name->empty() || name->find('/') != std::string::npos || name->find('\0') != std::string::npos ||
      !size || *size > (uint64_t(1) << 62) || !json["sha256"].is_array())
    return std::nullopt;
  ManifestFile file{*name, *size, {}};
  for (const Json &piece : json["sha256"]) {
    const auto *hex = piece.get_ptr<const std::string *>();
    if (!hex)
      return std::nullopt;
    file.sha256.push_back(*hex);
  }
  if (file.sha256.size() != manifestPieces(file.sizeBytes))
    return std::nullopt;
  return file;
}

StatusOr<Manifest> parseManifest(std::string_view text, const std::string &path) {
  const Json json = parseJson<Json>(text);
  if (!json.is_object() || !json.contains("files") || !json["files"].is_array())
    return dataLoss(fmt::format("'{}' is not a valid manifest", path));
  if (!json.contains("version") || json["version"] != 1)
    return failedPrecondition(fmt::format("the manifest '{}' is of a version that this program does not read", path));
  Manifest manifest;
  for (const Json &entry : json["files"]) {
    std::optional<ManifestFile> file = parseFile(entry);
    if (!file)
      return dataLoss(fmt::format("'{}' is not a valid manifest: an entry is damaged", path));
    manifest.files.push_back(std::move(*file));
  }
  return manifest;
}

Status verifySizes(const Manifest &manifest, const std::string &folder) {
  for (const ManifestFile &file : manifest.files) {
    const std::string path = folder + "/" + file.name;
    StatusOr<File> opened = File::open(path, File::Mode::Read);
    if (!opened.isOk())
      return opened.status().code() == StatusCode::NotFound ? dataLoss(fmt::format("'{}' is missing", path))
                                                            : opened.status();
    ZTC_ASSIGN_OR_RETURN(const uint64_t size, opened->size());
    if (size != file.sizeBytes)
      return dataLoss(fmt::format("'{}' has {} bytes, its manifest says {}", path, size, file.sizeBytes));
  }
  return Status::ok();
}

Status compareChecksums(const Manifest &manifest, const Manifest &found, const std::string &folder) {
  for (size_t i = 0; i < manifest.files.size(); ++i) {
    const ManifestFile &file = manifest.files[i];
    for (size_t piece = 0; piece < file.sha256.size(); ++piece)
      if (i >= found.files.size() || piece >= found.files[i].sha256.size() ||
          found.files[i].sha256[piece] != file.sha256[piece])
        return dataLoss(
            fmt::format("'{}/{}' is corrupted: the checksum of the bytes from {} does not match its manifest", folder,
                        file.name, piece * kManifestPieceBytes));
  }
  return Status::ok();
}

} // namespace ztc
