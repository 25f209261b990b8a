#include "runtime/Ranks/Wire.h"
#include <cerrno>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

namespace ztc {

ranks::Message parseMessage(std::string_view bytes) {
  ranks::Message message;
  if (!message.ParseFromArray(bytes.data(), int(bytes.size())))
    message.Clear();
  return message;
}

ranks::Progress progressMessage(const RankProgress &progress) {
  ranks::Progress message;
  message.set_phase(progress.phase);
  message.set_step(progress.step);
  message.set_place(progress.place);
  message.set_collective(progress.collective);
  message.set_in_collective(progress.inCollective);
  message.set_waits_for(progress.waitsFor);
  message.set_work(progress.work);
  message.set_bytes(progress.bytes);
  return message;
}

RankProgress readProgress(const ranks::Progress &message) {
  RankProgress progress;
  progress.phase = message.phase();
  progress.step = message.step();
  progress.place = message.place();
  progress.collective = message.collective();
  progress.inCollective = message.in_collective();
  progress.waitsFor = message.waits_for();
  progress.work = message.work();
  progress.bytes = message.bytes();
  return progress;
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

void Connection::send(const ranks::Message &message) {
  const std::string bytes = message.SerializeAsString();
  const auto length = uint32_t(bytes.size());
  out_.append(reinterpret_cast<const char *>(&length), sizeof length);
  out_ += bytes;
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
