// toml++ and yaml-cpp report by exceptions: they end in this file.
#include "runtime/Tools/ConfigFile.h"
#include <algorithm>
#include <fmt/format.h>
#include <optional>
#include <sstream>
#include <string_view>
#include <toml++/toml.h>
#include <utility>
#include <yaml-cpp/yaml.h>

namespace ztc {

namespace {

/// The entries so far, and what is wrong with the first that cannot be one.
class Entries {
public:
  void add(std::string name, std::vector<std::string> values) {
    std::ranges::replace(name, '_', '-');
    while (name.starts_with('-'))
      name.erase(0, 1);
    if (std::ranges::any_of(entries_, [&](const ConfigEntry &entry) { return entry.name == name; }))
      fail(fmt::format("'{}' stands in it twice", name));
    entries_.push_back({std::move(name), std::move(values)});
  }
  void fail(std::string what) {
    if (problem_.isOk())
      problem_ = invalidArgument(std::move(what));
  }
  StatusOr<std::vector<ConfigEntry>> take() {
    if (!problem_.isOk())
      return problem_;
    return std::move(entries_);
  }

private:
  std::vector<ConfigEntry> entries_;
  Status problem_;
};

std::optional<std::string> valueText(const toml::node &node) {
  if (const auto *text = node.as_string())
    return text->get();
  if (const auto *number = node.as_integer())
    return std::to_string(number->get());
  if (const auto *number = node.as_floating_point())
    return fmt::format("{}", number->get());
  if (const auto *truth = node.as_boolean())
    return truth->get() ? "true" : "false";
  return std::nullopt;
}

std::optional<std::string> valueText(const YAML::Node &node) {
  return node.IsScalar() ? std::optional(node.Scalar()) : std::nullopt;
}

void addToml(const toml::table &table, Entries &entries) {
  for (const auto &[key, node] : table) {
    const std::string name(key.str());
    if (const toml::table *section = node.as_table()) {
      addToml(*section, entries);
      continue;
    }
    std::vector<std::string> values;
    const auto addValue = [&](const toml::node &value) {
      if (std::optional<std::string> text = valueText(value))
        values.push_back(std::move(*text));
      else
        entries.fail(fmt::format("the value of '{}' is not a number, a text, true, false or a list of these", name));
    };
    if (const toml::array *list = node.as_array())
      for (const toml::node &value : *list)
        addValue(value);
    else
      addValue(node);
    entries.add(name, std::move(values));
  }
}

void addYaml(const YAML::Node &map, Entries &entries) {
  for (const auto &member : map) {
    const std::string name = member.first.IsScalar() ? member.first.Scalar() : std::string();
    const YAML::Node &node = member.second;
    if (node.IsMap()) {
      addYaml(node, entries);
      continue;
    }
    if (node.IsNull())
      continue;
    std::vector<std::string> values;
    const auto addValue = [&](const YAML::Node &value) {
      if (std::optional<std::string> text = valueText(value))
        values.push_back(std::move(*text));
      else
        entries.fail(fmt::format("the value of '{}' is not a number, a text, true, false or a list of these", name));
    };
    if (node.IsSequence())
      for (const YAML::Node &value : node)
        addValue(value);
    else
      addValue(node);
    entries.add(name, std::move(values));
  }
}

/// YAML sets keys apart with a colon, TOML with an equals sign: what the first line that has one of them says.
bool looksLikeYaml(const std::string &text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t begin = line.find_first_not_of(" \t");
    if (begin == std::string::npos || line[begin] == '#' || line[begin] == '[')
      continue;
    const size_t colon = line.find(':'), equals = line.find('=');
    if (colon != equals)
      return colon < equals;
  }
  return false;
}

} // namespace

StatusOr<std::vector<ConfigEntry>> readConfig(const std::string &text) {
  Entries entries;
  try {
    if (looksLikeYaml(text)) {
      const YAML::Node root = YAML::Load(text);
      if (!root.IsMap())
        return invalidArgument("is not a list of options, each with its value");
      addYaml(root, entries);
    } else {
      addToml(toml::parse(text), entries);
    }
  } catch (const toml::parse_error &error) {
    return invalidArgument(fmt::format("line {}: {} (read as TOML: name = value)", error.source().begin.line,
                                       std::string(error.description())));
  } catch (const YAML::Exception &error) {
    return invalidArgument(fmt::format("line {}: {} (read as YAML: name: value)", error.mark.line + 1, error.msg));
  }
  return entries.take();
}

} // namespace ztc
