#include "runtime/Format/MeasuredLinks.h"
#include "runtime/Core/File.h"
#include "runtime/Core/Json.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace ztc {

using LinkJson = nlohmann::ordered_json;

double MeasuredLink::bothBytesPerSecond() const {
  return 2 / (1 / inBytesPerSecond + 1 / outBytesPerSecond);
}

StatusOr<std::vector<MeasuredLink>> readMeasuredLinks(const std::string &path) {
  std::vector<MeasuredLink> links;
  if (!pathExists(path))
    return links;
  ZTC_ASSIGN_OR_RETURN(const std::string text, readWholeFile(path));
  const LinkJson json = parseJson<LinkJson>(text);
  const Status none = dataLoss(fmt::format("'{}' holds no rates of links: remove it, or measure again with "
                                           "ztc-run --measure-links",
                                           path));
  if (!json.is_array())
    return none;
  for (const LinkJson &entry : json) {
    const auto word = [&](const char *name) {
      const auto *text =
          entry.is_object() && entry.contains(name) ? entry[name].get_ptr<const std::string *>() : nullptr;
      return text ? *text : std::string();
    };
    const auto rate = [&](const char *name) {
      return entry.is_object() && entry.contains(name) && entry[name].is_number() ? entry[name].get<double>() : 0;
    };
    MeasuredLink link{word("kind"), word("name"), word("date"), rate("in_bytes_per_second"),
                      rate("out_bytes_per_second")};
    const auto isRate = [](double value) { return std::isfinite(value) && value > 0; };
    if (link.kind.empty() || !isRate(link.inBytesPerSecond) || !isRate(link.outBytesPerSecond))
      return none;
    links.push_back(std::move(link));
  }
  return links;
}

Status keepMeasuredLinks(const std::string &path, const std::vector<MeasuredLink> &measured) {
  std::vector<MeasuredLink> links;
  if (auto known = readMeasuredLinks(path); known.isOk())
    links = std::move(*known);
  for (const MeasuredLink &link : measured) {
    std::erase_if(links, [&](const MeasuredLink &old) { return old.kind == link.kind && old.name == link.name; });
    links.push_back(link);
  }
  LinkJson json = LinkJson::array();
  for (const MeasuredLink &link : links)
    json.push_back({{"kind", link.kind},
                    {"name", link.name},
                    {"date", link.date},
                    {"in_bytes_per_second", link.inBytesPerSecond},
                    {"out_bytes_per_second", link.outBytesPerSecond}});
  ZTC_RETURN_IF_ERROR(makeFolders(parentFolder(path)));
  return replaceFile(path, json.dump(1, ' ', false, LinkJson::error_handler_t::replace) + "\n");
}

} // namespace ztc
