#include "runtime/Text/Vocabulary.h"
#include "runtime/Core/Print.h"
#include <fmt/format.h>

namespace ztc {

void Vocabulary::add(std::string text, int32_t id) {
  const auto [at, isNew] = ids_.insert_or_assign(std::move(text), id);
  texts_[id] = &at->first;
}

StatusOr<Vocabulary> Vocabulary::read(const JsonFields &fields) {
  const nlohmann::json *tokens = fields.find("vocab");
  if (!tokens || !tokens->is_object())
    return fields.error("'vocab' is not an object");
  Vocabulary out;
  for (auto token = tokens->begin(); token != tokens->end(); ++token) {
    const std::optional<int32_t> id = tokenIdOf(token.value());
    if (!id)
      return fields.error(fmt::format("the id of '{}' in 'vocab' is not a number from 0", printable(token.key(), 60)));
    out.add(token.key(), *id);
  }
  return StatusOr<Vocabulary>(std::move(out));
}

std::string byteTokenText(uint8_t byte) {
  return fmt::format("<0x{:02X}>", byte);
}

} // namespace ztc
