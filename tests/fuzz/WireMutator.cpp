#include "tests/fuzz/WireMutator.h"
#include <cstring>

namespace ztc::fuzz {
namespace {

constexpr int kDeepest = 12; ///< of messages taken apart

bool readVarint(std::string_view &bytes, uint64_t &value) {
  value = 0;
  for (unsigned shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
    const auto byte = static_cast<uint8_t>(bytes.front());
    bytes.remove_prefix(1);
    value |= uint64_t(byte & 0x7f) << shift;
    if (!(byte & 0x80))
      return true;
  }
  return false;
}

void writeVarint(std::string &to, uint64_t value) {
  for (; value >= 0x80; value >>= 7)
    to += static_cast<char>(value | 0x80);
  to += static_cast<char>(value);
}

/// Every field of the tree, with the list that holds it.
struct Place {
  std::vector<WireField> *list;
  size_t index;
  WireField &field() const { return (*list)[index]; }
};
void collect(std::vector<WireField> &fields, std::vector<Place> &places) {
  for (size_t i = 0; i < fields.size(); ++i) {
    places.push_back({&fields, i});
    collect(fields[i].fields, places);
  }
}

uint64_t interesting(uint64_t value, std::mt19937_64 &random) {
  static constexpr int64_t kValues[] = {0,
                                        1,
                                        2,
                                        3,
                                        4,
                                        5,
                                        7,
                                        8,
                                        9,
                                        10,
                                        11,
                                        13,
                                        16,
                                        -1,
                                        -2,
                                        -3,
                                        127,
                                        128,
                                        255,
                                        256,
                                        65535,
                                        1 << 20,
                                        INT32_MAX,
                                        INT32_MIN,
                                        64,
                                        1000,
                                        1 << 28,
                                        int64_t(1) << 40,
                                        int64_t(1) << 61,
                                        INT64_MAX,
                                        INT64_MIN};
  switch (random() % 4) {
  case 0:
    return value + random() % 5 - 2;
  case 1:
    return value ^ (uint64_t(1) << random() % 64);
  default:
    return static_cast<uint64_t>(kValues[random() % std::size(kValues)]);
  }
}

} // namespace

bool parseWire(std::string_view bytes, std::vector<WireField> &fields, int depth) {
  while (!bytes.empty()) {
    uint64_t tag = 0, length = 0;
    WireField field;
    if (!readVarint(bytes, tag) || tag >> 3 == 0 || tag >> 3 > 1000)
      return false;
    field.number = static_cast<uint32_t>(tag >> 3);
    field.wireType = tag & 7;
    if (field.wireType == 0) {
      if (!readVarint(bytes, field.value))
        return false;
    } else if (field.wireType == 1 || field.wireType == 5) {
      const size_t size = field.wireType == 1 ? 8 : 4;
      if (bytes.size() < size)
        return false;
      std::memcpy(&field.value, bytes.data(), size);
      bytes.remove_prefix(size);
    } else if (field.wireType == 2) {
      if (!readVarint(bytes, length) || length > bytes.size())
        return false;
      field.isMessage = length > 1 && depth < kDeepest && parseWire(bytes.substr(0, length), field.fields, depth + 1);
      if (!field.isMessage) {
        field.fields.clear();
        field.bytes = bytes.substr(0, length);
      }
      bytes.remove_prefix(length);
    } else {
      return false;
    }
    fields.push_back(std::move(field));
  }
  return true;
}

std::string printWire(const std::vector<WireField> &fields) {
  std::string text;
  for (const WireField &field : fields) {
    writeVarint(text, uint64_t(field.number) << 3 | field.wireType);
    if (field.wireType == 0) {
      writeVarint(text, field.value);
    } else if (field.wireType == 2) {
      const std::string bytes = field.isMessage ? printWire(field.fields) : field.bytes;
      writeVarint(text, bytes.size());
      text += bytes;
    } else {
      text.append(reinterpret_cast<const char *>(&field.value), field.wireType == 1 ? 8 : 4);
    }
  }
  return text;
}

std::string mutateWire(std::string_view message, std::mt19937_64 &random,
                       std::string (*mutateBytes)(const std::string &, std::mt19937_64 &)) {
  std::vector<WireField> fields;
  if (!parseWire(message, fields) || fields.empty())
    return std::string(message);
  for (unsigned changes = 1 + random() % 3; changes; --changes) {
    std::vector<Place> places;
    collect(fields, places);
    if (places.empty())
      break;
    const Place at = places[random() % places.size()], other = places[random() % places.size()];
    const WireField copy = other.field();
    switch (random() % 6) {
    case 0: // leave out
      at.list->erase(at.list->begin() + static_cast<ptrdiff_t>(at.index));
      break;
    case 1: // once more
      at.list->insert(at.list->begin() + static_cast<ptrdiff_t>(at.index), WireField(at.field()));
      break;
    case 2: // before a brother
      std::swap(at.field(), (*at.list)[random() % at.list->size()]);
      break;
    default: // another value: a name or a message from elsewhere keeps its own field's number
      if (at.field().wireType != 2) {
        at.field().value = interesting(at.field().value, random);
      } else if (copy.wireType == 2 && random() % 4) {
        const uint32_t number = at.field().number;
        at.field() = copy;
        at.field().number = number;
      } else if (!at.field().isMessage) {
        at.field().bytes = mutateBytes(at.field().bytes, random);
      }
    }
  }
  return printWire(fields);
}

} // namespace ztc::fuzz
