#include "runtime/Train/JsonLog.h"
#include "runtime/Core/Print.h"
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <iterator>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace ztc {

namespace {

constexpr size_t kMostUnreadBytes = size_t(8) << 20;

template <typename Buffer, typename Real> void appendNumber(Buffer &buffer, Real value) {
  if (!std::isfinite(value))
    buffer.append(std::string_view("null"));
  else
    fmt::format_to(std::back_inserter(buffer), "{}", value);
}

} // namespace

JsonObject &JsonObject::begin() {
  text_.clear();
  text_.push_back('{');
  return *this;
}

void JsonObject::appendQuoted(std::string_view text) {
  text_.push_back('"');
  for (char c : text) {
    if (c == '"' || c == '\\') {
      text_.push_back('\\');
      text_.push_back(c);
    } else if (static_cast<unsigned char>(c) < 0x20) {
      fmt::format_to(std::back_inserter(text_), "\\u{:04x}", unsigned(static_cast<unsigned char>(c)));
    } else {
      text_.push_back(c);
    }
  }
  text_.push_back('"');
}

void JsonObject::startMember(std::string_view key) {
  if (text_.size() > 1)
    text_.append(std::string_view(", "));
  appendQuoted(key);
  text_.append(std::string_view(": "));
}

JsonObject &JsonObject::add(std::string_view key, uint64_t value) {
  startMember(key);
  fmt::format_to(std::back_inserter(text_), "{}", value);
  return *this;
}

JsonObject &JsonObject::add(std::string_view key, double value) {
  startMember(key);
  appendNumber(text_, value);
  return *this;
}

JsonObject &JsonObject::add(std::string_view key, float value) {
  startMember(key);
  appendNumber(text_, value);
  return *this;
}

JsonObject &JsonObject::add(std::string_view key, bool value) {
  return addRaw(key, value ? "true" : "false");
}

JsonObject &JsonObject::add(std::string_view key, std::string_view text) {
  startMember(key);
  appendQuoted(text);
  return *this;
}

JsonObject &JsonObject::addRaw(std::string_view key, std::string_view json) {
  startMember(key);
  text_.append(json);
  return *this;
}

std::string_view JsonObject::end() {
  text_.push_back('}');
  return {text_.data(), text_.size()};
}

JsonLog::~JsonLog() {
  const bool isTaken = !writer_ || writer_->end(BackgroundWriter::kPatienceSeconds);
  if (descriptor_ >= 0 && isTaken)
    ::close(descriptor_);
  if (isNew_)
    ::unlink(path_.c_str());
}

Status JsonLog::open(const std::string &path, bool append) {
  file_.close();
  if (descriptor_ >= 0)
    ::close(std::exchange(descriptor_, -1)); // and with it its lock
  path_ = path;
  const bool exists = ::access(path.c_str(), F_OK) == 0;
  // A pipe without a reader would wait for one.
  descriptor_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK | (append ? O_APPEND : 0), 0666);
  if (descriptor_ < 0)
    return notFound("--log-json: cannot write " + path + ": " +
                    (errno == ENXIO ? "it is a pipe that nobody reads" : std::strerror(errno)));
  ::fcntl(descriptor_, F_SETFL, ::fcntl(descriptor_, F_GETFL) & ~O_NONBLOCK);
  struct stat file{};
  const bool isKnown = ::fstat(descriptor_, &file) == 0;
  // Two runs that write into one file would cut each other's lines; a device such as /dev/null takes any number of
  // them. File systems without locks give none.
  if (isKnown && !S_ISCHR(file.st_mode) && ::flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(std::exchange(descriptor_, -1));
    return failedPrecondition(
        fmt::format("--log-json: another run is writing into '{}': give this one a file of its own", path));
  }
  if (isKnown && (S_ISFIFO(file.st_mode) || S_ISSOCK(file.st_mode) || ::isatty(descriptor_)))
    writer_ = std::make_unique<BackgroundWriter>(descriptor_, kMostUnreadBytes);
  isNew_ = !exists;
  replaces_ = !append;
  return Status::ok();
}

void JsonLog::endPipe() {
  print(stderr, "ztc-run: warning: the log {} ends here: {}\n", path_,
        writer_->error() ? std::strerror(writer_->error()) : "nobody reads it");
  descriptor_ = -1; // not closed: the writer's thread may stand in a write
}

void JsonLog::write(std::string_view object) {
  if (!isOpen())
    return;
  isNew_ = false;
  line_.assign(object);
  line_.push_back('\n');
  if (writer_) {
    if (!writer_->write(line_))
      endPipe();
    return;
  }
  if (std::exchange(replaces_, false))
    (void)!::ftruncate(descriptor_, 0); // a device has nothing to cut
  if (descriptor_ >= 0)
    file_.open(std::exchange(descriptor_, -1), "the log " + path_, "lines");
  file_.append(line_);
}

} // namespace ztc
