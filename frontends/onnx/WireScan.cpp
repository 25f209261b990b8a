// Byte offsets inside a serialised ONNX model, from the protobuf wire format alone: a parsed message no longer knows
// them.
#include "frontends/onnx/Model.h"

using llvm::StringRef;

namespace ztc::importer {
namespace {

/// Field numbers of onnx.proto.
constexpr unsigned kModelGraph = 7, kGraphInitializer = 5, kTensorName = 8, kTensorRawData = 9;

/// Walks the fields of one message; `position` is an offset into the whole file.
class FieldWalk {
public:
  FieldWalk(StringRef file, uint64_t begin, uint64_t end) : file(file), position(begin), end(end) {}

  /// Moves to the next field; false at the end and where the bytes make no sense.
  bool next() {
    uint64_t tag;
    if (position >= end || !varint(tag))
      return false;
    field = static_cast<unsigned>(tag >> 3);
    isMessage = false;
    switch (tag & 7) {
    case 0: {
      uint64_t ignored;
      return varint(ignored);
    }
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
  uint64_t stop() const { return position; }

private:
  bool varint(uint64_t &value) {
    value = 0;
    for (unsigned shift = 0; shift < 64 && position < end; shift += 7) {
      auto byte = static_cast<uint8_t>(file[position++]);
      value |= uint64_t(byte & 0x7f) << shift;
      if (!(byte & 0x80))
        return true;
    }
    return false;
  }
  bool skip(uint64_t bytes) {
    if (bytes > end - position)
      return false;
    position += bytes;
    return true;
  }
  StringRef file;
  uint64_t position, end;
};

} // namespace

llvm::StringMap<std::pair<uint64_t, uint64_t>> findRawData(StringRef file) {
  llvm::StringMap<std::pair<uint64_t, uint64_t>> found;
  for (FieldWalk model(file, 0, file.size()); model.next();) {
    if (model.field != kModelGraph || !model.isMessage)
      continue;
    for (FieldWalk graph(file, model.begin, model.stop()); graph.next();) {
      if (graph.field != kGraphInitializer || !graph.isMessage)
        continue;
      StringRef name;
      std::pair<uint64_t, uint64_t> range{0, 0};
      for (FieldWalk tensor(file, graph.begin, graph.stop()); tensor.next();) {
        if (tensor.isMessage && tensor.field == kTensorName)
          name = file.slice(tensor.begin, tensor.stop());
        if (tensor.isMessage && tensor.field == kTensorRawData)
          range = {tensor.begin, tensor.stop() - tensor.begin};
      }
      if (range.second)
        found[name] = range;
    }
  }
  return found;
}

} // namespace ztc::importer
