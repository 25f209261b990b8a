// The normalizers of tokenizer.json: what is done to a text before it is cut.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Text/JsonFields.h"
#include <memory>
#include <string>

namespace ztc {

/// A text that is being normalized.
struct NormalizedText {
  std::string text;
  size_t startBytes = 0; ///< what comes from the first character that was given; 0 where that is gone
};

/// Thread-safe.
class Normalizer {
public:
  virtual ~Normalizer() = default;
  virtual Status apply(NormalizedText &text) const = 0;

  /// Null where `json` is null. InvalidArgument on types and fields that are not known.
  static StatusOr<std::unique_ptr<Normalizer>> read(const nlohmann::json *json, const std::string &place);
};

/// SentencePiece's table of replacements (`precompiled_charsmap`): a double array over UTF-8, and the replacements.
StatusOr<std::unique_ptr<Normalizer>> readPrecompiledNormalizer(const JsonFields &fields);

} // namespace ztc
