#include "runtime/Text/TokenizerFolder.h"
#include "runtime/Core/File.h"
#include "runtime/Core/Print.h"
#include <algorithm>
#include <fmt/format.h>

namespace ztc {

/// A small JSON object of the folder; an empty one where there is none.
static StatusOr<nlohmann::json> readConfig(const std::string &path) {
  if (!pathExists(path))
    return nlohmann::json::object();
  ZTC_ASSIGN_OR_RETURN(const std::string text, readWholeFile(path));
  nlohmann::json json = parseJson(text);
  if (!json.is_object())
    return invalidArgument(fmt::format("'{}' is not a JSON object", path));
  return StatusOr<nlohmann::json>(std::move(json));
}

/// eos_token_id: a number or several.
static std::vector<int32_t> endsOf(const nlohmann::json &config) {
  std::vector<int32_t> out;
  const auto found = config.find("eos_token_id");
  if (found == config.end())
    return out;
  const auto add = [&](const nlohmann::json &one) {
    if (const std::optional<int32_t> id = tokenIdOf(one))
      out.push_back(*id);
  };
  if (found->is_array())
    std::for_each(found->begin(), found->end(), add);
  else
    add(*found);
  return out;
}

StatusOr<std::shared_ptr<const TokenizerFolder>> TokenizerFolder::open(const std::string &folder) {
  ZTC_ASSIGN_OR_RETURN(Tokenizer tokenizer, Tokenizer::open(folder));
  ZTC_ASSIGN_OR_RETURN(const nlohmann::json ofTokenizer, readConfig(folder + "/tokenizer_config.json"));
  ZTC_ASSIGN_OR_RETURN(const nlohmann::json ofModel, readConfig(folder + "/config.json"));
  ZTC_ASSIGN_OR_RETURN(const nlohmann::json ofGeneration, readConfig(folder + "/generation_config.json"));
  auto out = std::make_shared<TokenizerFolder>(TokenizerFolder{folder, std::move(tokenizer), std::nullopt, {}});
  if (const auto token = ofTokenizer.find("eos_token"); token != ofTokenizer.end()) {
    const nlohmann::json *content = &*token; // {"content": ...} in files of older versions
    if (token->is_object() && token->contains("content"))
      content = &*token->find("content");
    if (const auto *text = content->get_ptr<const std::string *>())
      out->endOfText = out->tokenizer.idOf(*text);
  }
  std::vector<int32_t> ends = endsOf(ofModel);
  if (ends.empty())
    if (const auto inner = ofModel.find("text_config"); inner != ofModel.end() && inner->is_object())
      ends = endsOf(*inner);
  if (!out->endOfText && !ends.empty())
    out->endOfText = ends.front();
  out->stops = endsOf(ofGeneration);
  if (out->stops.empty())
    out->stops = ends;
  if (out->endOfText && std::ranges::find(out->stops, *out->endOfText) == out->stops.end())
    out->stops.push_back(*out->endOfText);
  return std::shared_ptr<const TokenizerFolder>(std::move(out));
}

std::string TokenizerFolder::describe(int32_t token) const {
  const std::optional<std::string> text = tokenizer.textOf(token);
  return text ? fmt::format("'{}'", printable(*text, 60)) : "which the tokenizer does not know";
}

} // namespace ztc
