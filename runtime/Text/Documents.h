// Texts from files: plain text, and JSON lines with `text` or with `prompt` and `completion`.
#pragma once
#include "runtime/Core/File.h"
#include "runtime/Core/Sha256.h"
#include "runtime/Core/Status.h"
#include <cstdint>
#include <string>

namespace ztc {

/// A document, or a part of a long one.
struct TextPart {
  std::string text;   ///< all of it, the prompt too
  size_t prompt = 0;  ///< bytes of it that are the prompt, whose tokens do not count
  bool begins = true; ///< the document begins with it
  bool ends = true;   ///< and ends with it
  std::string place;  ///< "line 3", "byte 100"
};

/// Reads a file from its beginning to its end. A text file is one document, in parts of 1 MiB at most that end at line
/// ends; each line of a .jsonl is one.
class DocumentReader {
public:
  static StatusOr<DocumentReader> open(const std::string &path);
  /// False at the end. InvalidArgument, with file and line, on what is not a text: chats are pointed to
  /// prepare_chat.py.
  StatusOr<bool> next(TextPart &part);
  uint64_t size() const { return size_; }   ///< of the file
  uint64_t done() const { return offset_; } ///< bytes read so far
  /// Of all that was read; the reader must not be used afterwards.
  std::string sha256() { return Sha256::hex(hash_.finish()); }

private:
  DocumentReader(File file, uint64_t size, bool isJson) : file_(std::move(file)), size_(size), isJson_(isJson) {}
  /// More of the file into buffer_; nothing where it is all there.
  Status readMore();
  StatusOr<bool> nextText(TextPart &part);
  StatusOr<bool> nextLine(TextPart &part);
  Status parseLine(std::string_view line, TextPart &part) const;
  File file_;
  uint64_t size_;
  bool isJson_;
  uint64_t offset_ = 0;
  uint64_t line_ = 0;
  std::string buffer_;
  size_t at_ = 0; ///< of buffer_: what lies before was given
  Sha256 hash_;
};

/// Of a file's bytes.
StatusOr<std::string> sha256OfFile(const std::string &path);

} // namespace ztc
