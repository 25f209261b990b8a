#include "runtime/Text/Documents.h"
#include "runtime/Core/Print.h"
#include "runtime/Text/JsonFields.h"
#include "runtime/Text/Unicode.h"
#include <algorithm>
#include <fmt/format.h>

namespace ztc {

namespace {

constexpr uint64_t kReadBytes = uint64_t(1) << 20;
constexpr size_t kPartBytes = size_t(1) << 20;
constexpr size_t kLongestLine = size_t(256) << 20;

bool isSpace(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

/// Where a part of `text` ends: after a line end between two lines that are not empty, for there the patterns of
/// tokenizers cut as well; where there is none, after any line end, any space, any character.
size_t partEnd(std::string_view text) {
  size_t line = 0, space = 0;
  for (size_t end = text.size() - 1; end > 1 && end > text.size() / 2; --end) {
    if (text[end - 1] == '\n' && !isSpace(text[end]) && !isSpace(text[end - 2]))
      return end;
    if (line == 0 && text[end - 1] == '\n')
      line = end;
    if (space == 0 && text[end] == ' ')
      space = end;
  }
  size_t end = line ? line : space ? space : text.size() - 1;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80)
    --end;
  return end ? end : text.size();
}

} // namespace

StatusOr<DocumentReader> DocumentReader::open(const std::string &path) {
  ZTC_ASSIGN_OR_RETURN(File file, File::open(path, File::Mode::Read));
  ZTC_ASSIGN_OR_RETURN(const uint64_t size, file.size());
  return DocumentReader(std::move(file), size, path.ends_with(".jsonl") || path.ends_with(".json"));
}

Status DocumentReader::readMore() {
  const uint64_t bytes = std::min(kReadBytes, size_ - offset_);
  if (bytes == 0)
    return Status::ok();
  buffer_.erase(0, at_);
  at_ = 0;
  const size_t before = buffer_.size();
  buffer_.resize(before + bytes);
  ZTC_RETURN_IF_ERROR(file_.readAt(offset_, buffer_.data() + before, bytes));
  hash_.update(buffer_.data() + before, bytes);
  offset_ += bytes;
  return Status::ok();
}

StatusOr<bool> DocumentReader::next(TextPart &part) {
  part = {};
  return isJson_ ? nextLine(part) : nextText(part);
}

StatusOr<bool> DocumentReader::nextText(TextPart &part) {
  while (buffer_.size() - at_ <= kPartBytes && offset_ < size_)
    ZTC_RETURN_IF_ERROR(readMore());
  if (at_ == buffer_.size())
    return false;
  const uint64_t place = offset_ - (buffer_.size() - at_);
  std::string_view left = std::string_view(buffer_).substr(at_);
  if (left.size() > kPartBytes)
    left = left.substr(0, partEnd(left.substr(0, kPartBytes)));
  part.text = left;
  part.place = fmt::format("byte {}", place);
  part.begins = place == 0;
  at_ += left.size();
  part.ends = at_ == buffer_.size() && offset_ == size_;
  if (const std::optional<size_t> bad = findInvalidUtf8(part.text))
    return invalidArgument(
        fmt::format("'{}' is not UTF-8 at byte {}; convert it, for example with iconv", file_.path(), place + *bad));
  return true;
}

StatusOr<bool> DocumentReader::nextLine(TextPart &part) {
  for (;;) {
    size_t end = buffer_.find('\n', at_);
    while (end == std::string::npos && offset_ < size_) {
      const size_t known = buffer_.size() - at_;
      if (known > kLongestLine)
        return invalidArgument(fmt::format("'{}' line {} is longer than {} bytes: JSON lines hold one document each",
                                           file_.path(), line_ + 1, kLongestLine));
      ZTC_RETURN_IF_ERROR(readMore());
      end = buffer_.find('\n', at_ + known);
    }
    if (at_ == buffer_.size())
      return false;
    std::string_view line = std::string_view(buffer_).substr(at_, end == std::string::npos ? end : end - at_);
    at_ = end == std::string::npos ? buffer_.size() : end + 1;
    ++line_;
    if (std::ranges::all_of(line, isSpace))
      continue;
    const Status parsed = parseLine(line, part);
    if (!parsed.isOk())
      return invalidArgument(fmt::format("'{}' line {} {}", file_.path(), line_, parsed.message()));
    part.place = fmt::format("line {}", line_);
    return true;
  }
}

Status DocumentReader::parseLine(std::string_view line, TextPart &part) const {
  static constexpr const char *kKnown = "known are `text`, and `prompt` with `completion`";
  const nlohmann::json json = parseJson(line);
  if (json.is_discarded())
    return invalidArgument("is not JSON");
  if (const auto *text = json.get_ptr<const std::string *>()) {
    part.text = *text;
    return Status::ok();
  }
  if (!json.is_object())
    return invalidArgument(fmt::format("is neither an object nor a text; {}", kKnown));
  for (const char *key : {"messages", "conversations", "conversation"})
    if (json.contains(key))
      return invalidArgument(fmt::format(
          "holds a chat (`{}`), which needs the model's chat template: samples/data/prepare_chat.py makes a token file "
          "of it",
          key));
  const auto textOf = [&](const char *key) -> StatusOr<std::string> {
    const auto *found = json.find(key)->get_ptr<const std::string *>();
    return found ? StatusOr<std::string>(*found) : invalidArgument(fmt::format("has a `{}` that is not a text", key));
  };
  if (json.contains("prompt") && json.contains("completion")) {
    ZTC_ASSIGN_OR_RETURN(part.text, textOf("prompt"));
    part.prompt = part.text.size();
    ZTC_ASSIGN_OR_RETURN(const std::string completion, textOf("completion"));
    part.text += completion;
    return Status::ok();
  }
  if (json.contains("text")) {
    ZTC_ASSIGN_OR_RETURN(part.text, textOf("text"));
    return Status::ok();
  }
  std::string names;
  for (auto entry = json.begin(); entry != json.end() && names.size() < 200; ++entry)
    names += (names.empty() ? "" : ", ") + printable(entry.key(), 40);
  return invalidArgument(fmt::format("has the keys {}; {}", names.empty() ? "(none)" : names, kKnown));
}

StatusOr<std::string> sha256OfFile(const std::string &path) {
  ZTC_ASSIGN_OR_RETURN(const File file, File::open(path, File::Mode::Read));
  ZTC_ASSIGN_OR_RETURN(const uint64_t size, file.size());
  Sha256 hash;
  std::string buffer(kReadBytes, 0);
  for (uint64_t offset = 0; offset < size; offset += kReadBytes) {
    const uint64_t bytes = std::min(kReadBytes, size - offset);
    ZTC_RETURN_IF_ERROR(file.readAt(offset, buffer.data(), bytes));
    hash.update(buffer.data(), bytes);
  }
  return Sha256::hex(hash.finish());
}

} // namespace ztc
