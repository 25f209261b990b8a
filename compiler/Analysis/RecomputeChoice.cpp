#include "compiler/Analysis/RecomputeChoice.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace ztc {

const std::array<const char *, kRecomputeGroups> kRecomputeGroupNames = {"pointwise",  "mlp",       "qkv",
                                                                         "projection", "attention", "down"};

void RecomputeChoice::remove(int64_t layer, RecomputeGroup group) {
  auto found = masks.find(layer);
  if (found == masks.end())
    return;
  found->second &= ~(1u << unsigned(group));
  if (found->second == 0)
    masks.erase(found);
}

bool RecomputeChoice::has(int64_t layer, RecomputeGroup group) const {
  auto found = masks.find(layer);
  return found != masks.end() && (found->second >> unsigned(group) & 1);
}

static std::string maskText(unsigned mask) {
  SmallVector<StringRef> names;
  for (unsigned group = 0; group < kRecomputeGroups; ++group)
    if (mask >> group & 1)
      names.push_back(kRecomputeGroupNames[group]);
  return llvm::join(names, "+");
}

std::string RecomputeChoice::text() const {
  std::string text;
  for (auto first = masks.begin(); first != masks.end();) {
    auto [layer, mask] = *first;
    int64_t last = layer;
    // What lies in no block stands apart.
    for (++first; layer >= 0 && first != masks.end() && first->first == last + 1 && first->second == mask; ++first)
      ++last;
    text += text.empty() ? "" : "/";
    text += layer < 0 ? "rest" : std::to_string(layer);
    if (last != layer)
      text += "-" + std::to_string(last);
    text += "=" + maskText(mask);
  }
  return text.empty() ? "none" : text;
}

static std::optional<unsigned> parseMask(StringRef text) {
  unsigned mask = 0;
  SmallVector<StringRef> names;
  text.split(names, '+');
  for (StringRef name : names) {
    auto found = llvm::find(kRecomputeGroupNames, name);
    if (found == kRecomputeGroupNames.end())
      return std::nullopt;
    mask |= 1u << (found - kRecomputeGroupNames.begin());
  }
  return mask;
}

FailureOr<RecomputeChoice> RecomputeChoice::parse(StringRef text) {
  RecomputeChoice choice;
  if (text == "none")
    return choice;
  SmallVector<StringRef> parts;
  text.split(parts, '/');
  for (StringRef part : parts) {
    auto [layers, groups] = part.split('=');
    std::optional<unsigned> mask = parseMask(groups);
    auto [from, to] = layers.split('-');
    int64_t first = -1, last = -1;
    if (!mask || (layers != "rest" && (from.getAsInteger(10, first) || first < 0)))
      return failure();
    last = first;
    if (!to.empty() && (to.getAsInteger(10, last) || last < first || last - first > 1 << 20))
      return failure();
    for (int64_t layer = first; layer <= last; ++layer)
      choice.masks[layer] |= *mask;
  }
  return choice;
}

} // namespace ztc
