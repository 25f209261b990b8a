#include "runtime/Core/Print.h"
#include "runtime/Core/BackgroundWriter.h"
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <mutex>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace ztc {

namespace {

constexpr size_t kMostUnreadBytes = size_t(1) << 20;

/// One of the standard streams.
struct Stream {
  std::shared_ptr<BackgroundWriter> writer; ///< null: as usual
  uint64_t dropped = 0;                     ///< lines since the last one that found room
};

struct Streams {
  std::mutex mutex;
  Stream out, err;
  Stream *of(std::FILE *file) { return file == stdout ? &out : file == stderr ? &err : nullptr; }
};

Streams &streams() {
  static Streams all;
  return all;
}

std::atomic<int> outputError{0};

void noteOutputError(int number) {
  int none = 0;
  if (number != EPIPE && number != EIO)
    outputError.compare_exchange_strong(none, number);
}

/// Whether both lead to one place, so that the order of their lines matters.
bool areOneFile(int one, int other) {
  struct stat a{}, b{};
  return fstat(one, &a) == 0 && fstat(other, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

} // namespace

void printText(std::FILE *to, std::string_view text) {
  {
    std::lock_guard lock(streams().mutex);
    Stream *stream = streams().of(to);
    if (stream && stream->writer) {
      std::string withNotice;
      if (stream->dropped) {
        withNotice = fmt::format("... {} lines that nobody read are left out ...\n{}", stream->dropped, text);
        text = withNotice;
      }
      if (stream->writer->write(text))
        stream->dropped = 0;
      else
        ++stream->dropped;
      return;
    }
  }
  const bool isTaken = std::fwrite(text.data(), 1, text.size(), to) == text.size();
  const int number = errno;
  if (std::fflush(to) != 0)
    noteOutputError(to == stdout ? errno : 0);
  else if (!isTaken && to == stdout)
    noteOutputError(number);
}

int standardOutputError() {
  return outputError;
}

size_t unreadBytes(std::FILE *to) {
  std::lock_guard lock(streams().mutex);
  const Stream *stream = streams().of(to);
  return stream && stream->writer ? stream->writer->pendingBytes() : 0;
}

OutputInBackground::OutputInBackground() {
  std::fflush(stdout);
  std::fflush(stderr);
  std::lock_guard lock(streams().mutex);
  try {
    streams().out = {std::make_shared<BackgroundWriter>(STDOUT_FILENO, kMostUnreadBytes)};
    streams().err = areOneFile(STDOUT_FILENO, STDERR_FILENO)
                        ? Stream{streams().out.writer}
                        : Stream{std::make_shared<BackgroundWriter>(STDERR_FILENO, kMostUnreadBytes)};
  } catch (const std::system_error &) { // no thread can be had: what is printed waits for its reader, as anywhere
  }
}

OutputInBackground::~OutputInBackground() {
  std::shared_ptr<BackgroundWriter> out, err;
  {
    std::lock_guard lock(streams().mutex);
    out = std::move(streams().out.writer);
    err = std::move(streams().err.writer);
  }
  if (err)
    err->end(BackgroundWriter::kPatienceSeconds);
  if (out && out != err)
    out->end(BackgroundWriter::kPatienceSeconds);
  if (out)
    noteOutputError(out->error());
}

/// Bytes of the UTF-8 sequence at the front, 0 where there is none.
static size_t sequenceLength(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const size_t length = lead < 0x80 ? 1 : lead >> 5 == 6 ? 2 : lead >> 4 == 14 ? 3 : lead >> 3 == 30 ? 4 : 0;
  if (length == 0 || length > text.size())
    return 0;
  for (size_t i = 1; i < length; ++i)
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80)
      return 0;
  return length;
}

std::string printable(std::string_view text, size_t most) {
  std::string result;
  size_t at = 0;
  while (at < text.size() && result.size() < most) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const size_t length = sequenceLength(text.substr(at));
    const bool isControl = (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7f ||
                           (length == 2 && byte == 0xc2 && static_cast<unsigned char>(text[at + 1]) < 0xa0);
    if (length == 0 || isControl)
      result += fmt::format("\\x{:02x}", byte);
    else
      result += text.substr(at, length);
    at += length == 0 || isControl ? 1 : length;
  }
  if (at < text.size())
    result += fmt::format("... ({} bytes more)", text.size() - at);
  return result;
}

} // namespace ztc
