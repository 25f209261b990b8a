#include "runtime/Text/PostProcessor.h"
#include <fmt/format.h>
#include <functional>
#include <map>

namespace ztc {

StatusOr<PostProcessor::Template> PostProcessor::readTemplate(const JsonFields &fields) {
  ZTC_ASSIGN_OR_RETURN(const nlohmann::json *pieces, fields.array("single"));
  Template out;
  for (const nlohmann::json &piece : *pieces) {
    ZTC_ASSIGN_OR_RETURN(const JsonFields entry, JsonFields::of(piece, fields.place() + ".single"));
    if (entry.find("Sequence")) {
      ZTC_ASSIGN_OR_RETURN(const JsonFields sequence, entry.object("Sequence"));
      ZTC_ASSIGN_OR_RETURN(const std::string id, sequence.text("id"));
      if (id != "A")
        return entry.error("names a second text");
      out.push_back(kText);
      continue;
    }
    ZTC_ASSIGN_OR_RETURN(const JsonFields special, entry.object("SpecialToken"));
    ZTC_ASSIGN_OR_RETURN(const std::string id, special.text("id"));
    ZTC_ASSIGN_OR_RETURN(const JsonFields all, fields.object("special_tokens"));
    ZTC_ASSIGN_OR_RETURN(const JsonFields token, all.object(id.c_str()));
    ZTC_ASSIGN_OR_RETURN(const nlohmann::json *ids, token.array("ids"));
    for (const nlohmann::json &one : *ids) {
      const std::optional<int32_t> known = tokenIdOf(one);
      if (!known)
        return token.error("'ids' are not numbers from 0");
      out.push_back(*known);
    }
  }
  return StatusOr<Template>(std::move(out));
}

/// ["[SEP]", 102]
static StatusOr<int32_t> readPair(const JsonFields &fields, const char *name) {
  ZTC_ASSIGN_OR_RETURN(const nlohmann::json *pair, fields.array(name));
  const std::optional<int32_t> id = pair->size() == 2 ? tokenIdOf((*pair)[1]) : std::nullopt;
  if (!id)
    return fields.error(fmt::format("'{}' is not a token with its id", name));
  return *id;
}

StatusOr<std::vector<PostProcessor::Template>> PostProcessor::readTemplates(const nlohmann::json &json,
                                                                            const std::string &place) {
  using Made = StatusOr<std::vector<Template>>;
  const auto around = [](const JsonFields &fields) -> Made {
    ZTC_ASSIGN_OR_RETURN(const int32_t begin, readPair(fields, "cls"));
    ZTC_ASSIGN_OR_RETURN(const int32_t end, readPair(fields, "sep"));
    return std::vector<Template>{{begin, kText, end}};
  };
  static const std::map<std::string, std::function<Made(const JsonFields &)>> all{
      {"TemplateProcessing",
       [](const JsonFields &fields) -> Made {
         ZTC_ASSIGN_OR_RETURN(Template one, readTemplate(fields));
         return std::vector<Template>{std::move(one)};
       }},
      {"BertProcessing", around},
      {"RobertaProcessing", around},
      {"ByteLevel", [](const JsonFields &) { return Made(std::vector<Template>()); }}, // offsets alone
      {"Sequence",
       [](const JsonFields &fields) -> Made {
         ZTC_ASSIGN_OR_RETURN(const nlohmann::json *list, fields.array("processors"));
         std::vector<Template> out;
         for (const nlohmann::json &one : *list) {
           ZTC_ASSIGN_OR_RETURN(const std::vector<Template> part, readTemplates(one, fields.place()));
           out.insert(out.end(), part.begin(), part.end());
         }
         return Made(std::move(out));
       }},
  };
  return readByType<std::vector<Template>>(json, place, all);
}

StatusOr<PostProcessor> PostProcessor::read(const nlohmann::json *json, const std::string &place) {
  PostProcessor out;
  if (json && !json->is_null()) {
    ZTC_ASSIGN_OR_RETURN(out.templates_, readTemplates(*json, place));
  }
  return StatusOr<PostProcessor>(std::move(out));
}

void PostProcessor::apply(std::vector<int32_t> &tokens, size_t from) const {
  for (const Template &pattern : templates_) {
    const std::vector<int32_t> text(tokens.begin() + long(from), tokens.end());
    tokens.resize(from);
    for (const int32_t one : pattern) {
      if (one == kText)
        tokens.insert(tokens.end(), text.begin(), text.end());
      else
        tokens.push_back(one);
    }
  }
}

} // namespace ztc
