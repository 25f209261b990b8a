// Messages between a rank and the server at rank 0: a length, a type, fields. Both ends are the same program on the
// same kind of machine: numbers are little-endian as they lie in memory.
#pragma once
#include "runtime/Ranks/ControlChannel.h"
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ztc {

/// Raised with every change of a message: ranks of different versions refuse one another by name.
inline constexpr uint32_t kWireVersion = 2;
inline constexpr uint64_t kWireMagic = 0x736b6e61722d7a74; // "tz-ranks"

enum class MessageType : uint8_t {
  // From a rank.
  Hello,  ///< magic, version, nonce, rank, world, ztc version, proof
  Post,   ///< exchange, number, bytes
  Set,    ///< key, bytes
  Get,    ///< request, key
  Report, ///< progress
  Failed, ///< code, text
  Bye,    ///< this rank is done
  // From the server.
  Greeting, ///< magic, version, nonce: so that a rank knows whom it reached
  Refused,  ///< may try again, text
  Welcome,  ///< the rank's address, proof; all ranks are here
  Result,   ///< exchange, number, bytes of every rank
  Value,    ///< request, bytes
  Pulse,    ///< rank 0's progress, as often as it reports
  Probe,    ///< report now: something is wrong
  Failure,  ///< rank, the rank that reports, code, text
  AllDone,  ///< every rank has said Bye
};

/// Builds one message.
class MessageWriter {
public:
  explicit MessageWriter(MessageType type) : data_(4, '\0') { data_.push_back(char(type)); }
  template <typename T> MessageWriter &number(T value) {
    data_.append(reinterpret_cast<const char *>(&value), sizeof value);
    return *this;
  }
  MessageWriter &text(std::string_view value) {
    number(uint32_t(value.size()));
    data_.append(value);
    return *this;
  }
  MessageWriter &bytes(std::span<const std::byte> value) {
    return text({reinterpret_cast<const char *>(value.data()), value.size()});
  }
  MessageWriter &progress(const RankProgress &progress);
  /// With its length in front.
  std::string take() {
    auto length = uint32_t(data_.size() - 4);
    std::memcpy(data_.data(), &length, sizeof length);
    return std::move(data_);
  }

private:
  std::string data_;
};

/// Takes a message apart. A field that is not there makes it bad, and every later one empty.
class MessageReader {
public:
  /// `message` without its length; it must outlive the reader.
  explicit MessageReader(std::string_view message) : rest_(message) { type_ = MessageType(number<uint8_t>()); }
  MessageType type() const { return type_; }
  /// False where a field was missing.
  bool isGood() const { return good_; }
  template <typename T> T number() {
    T value{};
    std::string_view raw = take(sizeof value);
    if (raw.size() == sizeof value)
      std::memcpy(&value, raw.data(), sizeof value);
    return value;
  }
  std::string_view text() { return take(number<uint32_t>()); }
  /// What is not read yet.
  std::string_view rest() const { return rest_; }
  Bytes bytes() {
    std::string_view raw = text();
    const auto *data = reinterpret_cast<const std::byte *>(raw.data());
    return {data, data + raw.size()};
  }
  RankProgress progress();

private:
  std::string_view take(size_t size) {
    if (size > rest_.size()) {
      good_ = false;
      rest_ = {};
      return {};
    }
    std::string_view raw = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return raw;
  }
  std::string_view rest_;
  MessageType type_;
  bool good_ = true;
};

/// A connected socket that never blocks, with what came in and is not read yet, and what is to go out. Closes it.
class Connection {
public:
  /// Takes over `descriptor` and makes it non-blocking.
  explicit Connection(int descriptor);
  Connection(Connection &&other) noexcept;
  Connection &operator=(Connection &&other) noexcept;
  ~Connection();

  int descriptor() const { return descriptor_; }
  void send(std::string_view message) { out_ += message; }
  bool wantsToWrite() const { return sent_ < out_.size(); }
  /// Writes what goes without waiting. False where the peer is gone.
  bool flush();
  /// Reads what is there. False where the peer is gone; what came before that can still be taken.
  bool receive();
  /// The next whole message, without its length, valid until the next receive().
  std::optional<std::string_view> next();
  /// A length above this is nothing that a rank sends: the peer is cut off.
  void setLimit(size_t bytes) { limit_ = bytes; }
  bool isBroken() const { return broken_; }

private:
  int descriptor_ = -1;
  std::string in_, out_;
  size_t taken_ = 0, sent_ = 0;
  size_t limit_ = size_t(4) << 10;
  bool broken_ = false;
};

} // namespace ztc
