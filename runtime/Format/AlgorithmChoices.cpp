#include "runtime/Format/AlgorithmChoices.h"
#include "runtime/Core/Json.h"
#include <fmt/format.h>

namespace ztc {

using Json = nlohmann::ordered_json;

std::string printAlgorithmChoices(const AlgorithmChoices &choices) {
  const Json json = {{"key", choices.key}, {"algorithms", choices.algorithms}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

StatusOr<AlgorithmChoices> parseAlgorithmChoices(std::string_view text, const std::string &path) {
  const Json json = parseJson<Json>(text);
  const auto none = [&] { return dataLoss(fmt::format("'{}' holds no choices of algorithms", path)); };
  if (!json.is_object())
    return none();
  const auto key = json.find("key"), algorithms = json.find("algorithms");
  if (key == json.end() || !key->is_string() || algorithms == json.end() || !algorithms->is_object())
    return none();
  AlgorithmChoices choices;
  choices.key = *key->get_ptr<const std::string *>();
  for (auto it = algorithms->begin(); it != algorithms->end(); ++it) {
    const auto *value = it.value().get_ptr<const std::string *>();
    if (!value)
      return none();
    choices.algorithms[it.key()] = *value;
  }
  return choices;
}

} // namespace ztc
