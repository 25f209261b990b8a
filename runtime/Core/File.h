// Files as values: mapped for reading, positional reads and writes, replacement that never leaves half a file.
#pragma once
#include "runtime/Core/Status.h"
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ztc {

/// What errno says about `path`: a full disk, quota or size limit is ResourceExhausted, a missing file NotFound, else
/// FailedPrecondition.
Status fileError(std::string_view action, const std::string &path, int errorNumber);

/// A regular file mapped read-only. Movable; unmaps at the end. An empty file has an empty span.
class MappedFile {
public:
  static StatusOr<MappedFile> open(const std::string &path);
  MappedFile(MappedFile &&other) noexcept { swap(other); }
  MappedFile &operator=(MappedFile &&other) noexcept {
    swap(other);
    return *this;
  }
  ~MappedFile();
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  uint64_t size() const { return size_; }
  const std::string &path() const { return path_; }

private:
  MappedFile() = default;
  void swap(MappedFile &other) noexcept;
  const std::byte *data_ = nullptr;
  uint64_t size_ = 0;
  std::string path_;
};

/// An open file with positional reads and writes that finish or fail.
class File {
public:
  enum class Mode { Read, ReadWrite, Create }; ///< Read takes regular files only, Create truncates an existing file
  static StatusOr<File> open(const std::string &path, Mode mode);
  File(File &&other) noexcept { swap(other); }
  File &operator=(File &&other) noexcept {
    swap(other);
    return *this;
  }
  ~File();

  StatusOr<uint64_t> size() const;
  /// DataLoss where the file ends before offset + bytes.
  Status readAt(uint64_t offset, void *to, uint64_t bytes) const;
  Status writeAt(uint64_t offset, const void *from, uint64_t bytes) const;
  /// Sets the size and reserves the blocks, so that a full disk shows here and not later.
  Status reserve(uint64_t bytes) const;
  Status sync() const;
  const std::string &path() const { return path_; }

private:
  File() = default;
  void swap(File &other) noexcept;
  int descriptor_ = -1;
  std::string path_;
};

/// The path that a rename may replace to write `path`: what a symbolic link points at, else `path` itself. Fails where
/// a folder, a device or a pipe stands there.
StatusOr<std::string> replaceablePath(const std::string &path);
/// Replaces `path` in one go: `write` fills a temporary file beside it, which is synced and renamed over it.
/// On any failure the temporary file is gone and `path` keeps its old content. A character device (/dev/null) is
/// written to, not replaced.
Status replaceFile(const std::string &path, const std::function<Status(const File &)> &write);
Status replaceFile(const std::string &path, std::string_view content);

/// The whole file. For small ones: configurations, indices.
StatusOr<std::string> readWholeFile(const std::string &path);

Status syncFolder(const std::string &folder);
/// Creates the folder and its parents; ok where it exists.
Status makeFolders(const std::string &folder);
/// Creates `folder` where needed and proves that files can be written there.
Status checkWritable(const std::string &folder);
Status renamePath(const std::string &from, const std::string &to);
/// Swaps two existing paths in one go; where the file system cannot, in two renames over a third name.
Status exchangePaths(const std::string &a, const std::string &b);
/// Removes a file or a folder with all in it; ok where nothing is there.
Status removeAll(const std::string &path);
bool pathExists(const std::string &path);
bool isFolder(const std::string &path);
/// Names in a folder, sorted.
StatusOr<std::vector<std::string>> listFolder(const std::string &folder);
/// Bytes that an ordinary user may still write on the file system of `folder`.
StatusOr<uint64_t> freeBytes(const std::string &folder);
/// "a/b.txt" -> "a"; "b.txt" -> ".".
std::string parentFolder(const std::string &path);

} // namespace ztc
