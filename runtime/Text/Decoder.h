// The decoders of tokenizer.json: from tokens' texts back to a text.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Text/JsonFields.h"
#include <memory>
#include <string>
#include <vector>

namespace ztc {

/// Thread-safe.
class Decoder {
public:
  virtual ~Decoder() = default;
  /// Texts that, one after the other, are the decoded one. What is not UTF-8 is U+FFFD.
  virtual Status apply(std::vector<std::string> &texts) const = 0;

  /// Null where `json` is null. InvalidArgument on types and fields that are not known.
  static StatusOr<std::unique_ptr<Decoder>> read(const nlohmann::json *json, const std::string &place);
};

} // namespace ztc
