// Protobuf's wire format as far as an ONNX file is read and rewritten without the library.
#pragma once
#include "llvm/ADT/StringRef.h"
#include <cstdint>

namespace ztc::importer {

/// Field numbers of onnx.proto.
namespace onnx_field {
inline constexpr unsigned kModelGraph = 7;
inline constexpr unsigned kGraphNode = 1, kGraphInitializer = 5;
inline constexpr unsigned kNodeInput = 1, kNodeOutput = 2, kNodeOp = 4, kNodeAttribute = 5;
inline constexpr unsigned kAttributeName = 1, kAttributeTensor = 5, kAttributeGraph = 6;
inline constexpr unsigned kTensorDims = 1, kTensorType = 2, kTensorFloats = 4, kTensorInts = 5, kTensorLongs = 7,
                          kTensorName = 8, kTensorRawData = 9, kTensorDoubles = 10, kTensorUnsigned = 11,
                          kTensorExternal = 13, kTensorLocation = 14;
inline constexpr unsigned kEntryKey = 1, kEntryValue = 2;
} // namespace onnx_field

/// Reads a variable-length integer at `position` and moves past it; false where it does not end before `end`.
inline bool readVarint(llvm::StringRef file, uint64_t &position, uint64_t end, uint64_t &value) {
  value = 0;
  for (unsigned shift = 0; shift < 64 && position < end; shift += 7) {
    auto byte = static_cast<uint8_t>(file[position++]);
    value |= uint64_t(byte & 0x7f) << shift;
    if (!(byte & 0x80))
      return true;
  }
  return false;
}

/// Walks the fields of one message; `position` is an offset into the whole file.
class FieldWalk {
public:
  FieldWalk(llvm::StringRef file, uint64_t begin, uint64_t end) : file(file), position(begin), end(end) {}

  /// Moves to the next field; false at the end and where the bytes make no sense.
  bool next() {
    uint64_t tag;
    fieldBegin = position;
    if (position >= end || !varint(tag))
      return false;
    field = static_cast<unsigned>(tag >> 3);
    isMessage = false;
    switch (tag & 7) {
    case 0:
      return varint(number);
    case 1:
      return skip(8);
    case 2: {
      uint64_t length;
      if (!varint(length))
        return false;
      isMessage = true;
      begin = position;
      return skip(length);
    }
    case 5:
      return skip(4);
    default:
      return false;
    }
  }
  unsigned field = 0;
  bool isMessage = false; ///< the field is [begin, stop()) of the file
  uint64_t begin = 0;
  uint64_t number = 0; ///< of a field that is a number
  /// The field's payload: a message, a text or bytes.
  llvm::StringRef payload() const { return file.slice(begin, position); }
  /// The field with its tag, as it stands in the file.
  llvm::StringRef whole() const { return file.slice(fieldBegin, position); }
  /// Whether all of the message made sense.
  bool isAtEnd() const { return position == end; }
  uint64_t stop() const { return position; }

private:
  bool varint(uint64_t &value) { return readVarint(file, position, end, value); }
  bool skip(uint64_t bytes) {
    if (bytes > end - position)
      return false;
    position += bytes;
    return true;
  }
  llvm::StringRef file;
  uint64_t position, end, fieldBegin = 0;
};

} // namespace ztc::importer
