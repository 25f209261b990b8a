#include "runtime/Ranks/Wire.h"
#include <cerrno>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

namespace ztc {

MessageWriter &MessageWriter::progress(const RankProgress &p) {
  text(p.phase).number(p.step).text(p.place).text(p.collective).number(uint8_t(p.inCollective));
  return text(p.waitsFor).number(p.work).number(p.bytes);
}

RankProgress MessageReader::progress() {
  RankProgress p;
  p.phase = text();
  p.step = number<uint64_t>();
  p.place = text();
  p.collective = text();
  p.inCollective = number<uint8_t>() != 0;
  p.waitsFor = text();
  p.work = number<uint64_t>();
  p.bytes = number<uint64_t>();
  return p;
}

Connection::Connection(int descriptor) : descriptor_(descriptor) {
  fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK);
}

Connection::Connection(Connection &&other) noexcept {
  *this = std::move(other);
}

Connection &Connection::operator=(Connection &&other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(in_, other.in_);
  std::swap(out_, other.out_);
  std::swap(taken_, other.taken_);
  std::swap(sent_, other.sent_);
  std::swap(limit_, other.limit_);
  std::swap(broken_, other.broken_);
  return *this;
}

Connection::~Connection() {
  if (descriptor_ >= 0)
    close(descriptor_);
}

bool Connection::flush() {
  while (wantsToWrite() && !broken_) {
    ssize_t count = ::send(descriptor_, out_.data() + sent_, out_.size() - sent_, MSG_NOSIGNAL);
    if (count >= 0) {
      sent_ += size_t(count);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return true;
    } else if (errno != EINTR) {
      broken_ = true;
    }
  }
  out_.clear();
  sent_ = 0;
  return !broken_;
}

bool Connection::receive() {
  in_.erase(0, taken_);
  taken_ = 0;
  char buffer[16384];
  while (in_.size() <= limit_ + 4) {
    ssize_t count = recv(descriptor_, buffer, sizeof buffer, 0);
    if (count > 0) {
      in_.append(buffer, size_t(count));
    } else if (count == 0) {
      return false;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return true;
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

std::optional<std::string_view> Connection::next() {
  std::string_view rest = std::string_view(in_).substr(taken_);
  uint32_t length = 0;
  if (broken_ || rest.size() < sizeof length)
    return std::nullopt;
  std::memcpy(&length, rest.data(), sizeof length);
  if (length == 0 || length > limit_) {
    broken_ = true;
    return std::nullopt;
  }
  if (rest.size() < sizeof length + length)
    return std::nullopt;
  taken_ += sizeof length + length;
  return rest.substr(sizeof length, length);
}

} // namespace ztc
