// Mutates a protobuf message field by field, without its description: a wrong length at the front would hide all after
// it from a mutation of bytes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace ztc::fuzz {

/// One field on the wire. A field of bytes that reads as a message is taken for one, names of two letters too: what is
/// written is the same.
struct WireField {
  uint32_t number = 0;
  uint32_t wireType = 0; ///< 0 varint, 1 eight bytes, 2 bytes or message, 5 four bytes
  uint64_t value = 0;    ///< of types 0, 1, 5
  std::string bytes;     ///< of type 2, where `isMessage` is false
  std::vector<WireField> fields;
  bool isMessage = false;
};

/// The fields of a message; false where the bytes are none.
bool parseWire(std::string_view bytes, std::vector<WireField> &fields, int depth = 0);
std::string printWire(const std::vector<WireField> &fields);

/// A changed copy of a message: numbers, names taken from elsewhere in it, fields left out, doubled, moved. Returns the
/// input where it is not a message. `mutateBytes` changes the bytes of one field.
std::string mutateWire(std::string_view message, std::mt19937_64 &random,
                       std::string (*mutateBytes)(const std::string &, std::mt19937_64 &));

} // namespace ztc::fuzz
