// The post-processors of tokenizer.json: the special tokens around a text.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Text/JsonFields.h"
#include <cstdint>
#include <vector>

namespace ztc {

/// For one text; those for pairs are not read. Thread-safe.
class PostProcessor {
public:
  /// One that does nothing where `json` is null. InvalidArgument on types and fields that are not known.
  static StatusOr<PostProcessor> read(const nlohmann::json *json, const std::string &place);
  /// Puts the special tokens around tokens[from, end).
  void apply(std::vector<int32_t> &tokens, size_t from) const;

private:
  /// Tokens, with kText where the text stands.
  static constexpr int32_t kText = -1;
  using Template = std::vector<int32_t>;
  static StatusOr<std::vector<Template>> readTemplates(const nlohmann::json &json, const std::string &place);
  static StatusOr<Template> readTemplate(const JsonFields &fields);
  std::vector<Template> templates_; ///< one after the other
};

} // namespace ztc
