// Files of tokens that are made of text files and kept for the next run.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Text/TokenizerFolder.h"
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace ztc {

/// How text becomes tokens.
struct TextOptions {
  std::shared_ptr<const TokenizerFolder> tokenizer; ///< null: data are tokens already, or bytes
  std::string cacheFolder;                          ///< empty: files of tokens go with the run
  std::string temporaryFolder = "/tmp";             ///< where they are then
  uint32_t threads = 1;
  /// Every now and then: bytes of text that are done, of so many.
  std::function<void(const std::string &path, uint64_t done, uint64_t all)> progress = {};
  /// Asked as often: true ends the work (a signal came). May be empty.
  std::function<bool()> cancelled = {};
};

/// Layout: this header, then a u32 for each token of which the highest bit says that it does not count as a target, the
/// one below that a document begins with it.
struct TokenFileHeader {
  char magic[8] = {'z', 't', 'c', 't', 'o', 'k', '2', '\n'};
  uint64_t tokens = 0;
  uint32_t largest = 0; ///< id
  uint32_t reserved = 0;
};
/// The header of a whole token file's bytes; none where they are not one, or not all of it.
std::optional<TokenFileHeader> readTokenFileHeader(std::span<const std::byte> bytes);

inline constexpr uint32_t kUncountedToken = uint32_t(1) << 31, kDocumentBegins = uint32_t(1) << 30;
inline constexpr uint32_t kTokenId = kDocumentBegins - 1; ///< the bits of the id

/// The tokens of a text or .jsonl file: with what the tokenizer puts around each document, and the end-of-text token
/// after it. Of `prompt` and `completion`, tokens that are the prompt's alone do not count.
struct TokenFile {
  std::string path;
  bool isTemporary = false; ///< to be removed once it is open
};

/// Finds or makes the token file of `path`; one that is damaged is made again. One of several processes of this host
/// makes it, the others wait for that one. FailedPrecondition where it was cancelled: nothing of the file is left then.
StatusOr<TokenFile> tokenizeFile(const std::string &path, const TextOptions &options);

} // namespace ztc
