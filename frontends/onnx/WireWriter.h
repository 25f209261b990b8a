// Messages in protobuf's wire format, written field by field.
#pragma once
#include "frontends/onnx/WireFormat.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <optional>
#include <string>

namespace ztc::importer {

inline void appendVarint(std::string &to, uint64_t value) {
  for (; value >= 0x80; value >>= 7)
    to.push_back(char(value | 0x80));
  to.push_back(char(value));
}

inline void appendNumber(std::string &to, unsigned field, uint64_t value) {
  appendVarint(to, uint64_t(field) << 3);
  appendVarint(to, value);
}

/// A message, a text or bytes.
inline void appendField(std::string &to, unsigned field, llvm::StringRef payload) {
  appendVarint(to, uint64_t(field) << 3 | 2);
  appendVarint(to, payload.size());
  to.append(payload.data(), payload.size());
}

/// `message` with other payloads where `edit` gives some; all other bytes as they are.
inline std::string rewritten(llvm::StringRef message,
                             llvm::function_ref<std::optional<std::string>(const FieldWalk &)> edit) {
  std::string result;
  for (FieldWalk walk(message, 0, message.size()); walk.next();) {
    std::optional<std::string> payload = walk.isMessage ? edit(walk) : std::nullopt;
    if (payload)
      appendField(result, walk.field, *payload);
    else
      result += walk.whole();
  }
  return result;
}

} // namespace ztc::importer
