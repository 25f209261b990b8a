// The pre-tokenizers of tokenizer.json: where a text is cut before the model sees it.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Text/JsonFields.h"
#include "runtime/Text/Pattern.h"
#include "runtime/Text/Pieces.h"
#include <memory>
#include <string>
#include <vector>

namespace ztc {

/// What becomes of the parts that match.
enum class SplitBehavior { Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous };

/// Puts `parts`, which cover a piece, together as `behavior` says; those that are removed or empty are gone.
void joinParts(std::vector<TextMatch> &parts, SplitBehavior behavior);

/// Thread-safe.
class PreTokenizer {
public:
  virtual ~PreTokenizer() = default;
  /// Leaves pieces that are tokens as they are.
  virtual Status apply(Pieces &pieces) const = 0;

  /// Null where `json` is null. InvalidArgument on types and fields that are not known.
  static StatusOr<std::unique_ptr<PreTokenizer>> read(const nlohmann::json *json, const std::string &place);
};

/// The character that Metaspace writes for a space.
struct MetaspaceFields {
  std::string replacement;
  enum class Prepend { First, Never, Always } prepend = Prepend::Always;
  bool split = true;
};
/// Of the pre-tokenizer and of the decoder.
StatusOr<MetaspaceFields> readMetaspace(const JsonFields &fields);

} // namespace ztc
