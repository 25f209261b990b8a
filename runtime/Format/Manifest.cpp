#include "runtime/Format/Manifest.h"
#include "runtime/Core/File.h"
#include "runtime/Core/Sha256.h"
#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace ztc {

using Json = nlohmann::ordered_json;

StatusOr<ManifestFile> describeFile(const std::string &folder, const std::string &name, std::span<std::byte> staging) {
  ZTC_ASSIGN_OR_RETURN(const File file, File::open(folder + "/" + name, File::Mode::Read));
  ManifestFile described;
  described.name = name;
  ZTC_ASSIGN_OR_RETURN(described.sizeBytes, file.size());
  for (uint64_t begin = 0; begin < described.sizeBytes; begin += kManifestPieceBytes) {
    const uint64_t end = std::min(begin + kManifestPieceBytes, described.sizeBytes);
    Sha256 hash;
    for (uint64_t at = begin; at < end;) {
      const uint64_t bytes = std::min<uint64_t>(staging.size(), end - at);
      ZTC_RETURN_IF_ERROR(file.readAt(at, staging.data(), bytes));
      hash.update(staging.data(), bytes);
      at += bytes;
    }
    described.sha256.push_back(Sha256::hex(hash.finish()));
  }
  return described;
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
  if (file.sha256.size() != (file.sizeBytes + kManifestPieceBytes - 1) / kManifestPieceBytes)
    return std::nullopt;
  return file;
}

StatusOr<Manifest> parseManifest(std::string_view text, const std::string &path) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
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

StatusOr<Manifest> readManifest(const std::string &folder) {
  const std::string path = folder + "/manifest.json";
  ZTC_ASSIGN_OR_RETURN(const std::string text, readWholeFile(path));
  return parseManifest(text, path);
}

Status verifyManifest(const Manifest &manifest, const std::string &folder, bool checksums,
                      std::span<std::byte> staging) {
  // Sizes first: they cost nothing and tell a truncated checkpoint at once.
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
  if (!checksums)
    return Status::ok();
  for (const ManifestFile &file : manifest.files) {
    ZTC_ASSIGN_OR_RETURN(const ManifestFile found, describeFile(folder, file.name, staging));
    for (size_t piece = 0; piece < file.sha256.size(); ++piece)
      if (piece >= found.sha256.size() || found.sha256[piece] != file.sha256[piece])
        return dataLoss(
            fmt::format("'{}/{}' is corrupted: the checksum of the bytes from {} does not match its manifest", folder,
                        file.name, piece * kManifestPieceBytes));
  }
  return Status::ok();
}

} // namespace ztc
