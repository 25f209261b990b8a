// `ztc memory --explain`: every byte of the peak, by tensor, block, class and the reason it is kept.
#include "compiler/Report/Report.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <map>
#include <set>

using llvm::formatv;

namespace ztc::report {

std::vector<PeakShare> explainPeak(const plan::Plan &p, const MemoryPlan &memory) {
  std::vector<PeakShare> shares;
  for (uint32_t slot : memory.liveAtPeak) {
    const plan::Slot &record = p.slots(int(slot));
    shares.push_back({record.name(), kMemoryClassNames[std::max(0, int(record.slot_class()) - 1)], record.reason(),
                      record.layer(), memory.slots[slot].bytes});
  }
  if (memory.byClass.back())
    shares.push_back(
        {"gaps", kMemoryClassNames.back(), "what the packing leaves at the peak", -1, memory.byClass.back()});
  return shares;
}

std::string layersText(const std::set<int64_t> &layers) {
  std::string text;
  for (auto first = layers.begin(); first != layers.end();) {
    int64_t begin = *first, end = begin;
    for (++first; begin >= 0 && first != layers.end() && *first == end + 1; ++first)
      ++end;
    text += text.empty() ? "" : ",";
    text += begin < 0 ? "-" : std::to_string(begin);
    text += end != begin ? "-" + std::to_string(end) : "";
  }
  return text;
}

namespace {
/// Shares that differ by their numbers only: one line for all blocks.
struct ShareGroup {
  PeakShare first;
  std::set<int64_t> layers;
  uint64_t bytes = 0;
  unsigned count = 0;
};

/// The text with every number replaced by a star.
std::string withoutNumbers(llvm::StringRef text) {
  std::string pattern;
  for (char c : text)
    if (!llvm::isDigit(c))
      pattern += c;
    else if (pattern.empty() || pattern.back() != '*')
      pattern += '*';
  return pattern;
}
} // namespace

void printPeak(llvm::raw_ostream &out, const std::vector<PeakShare> &shares) {
  std::map<std::array<std::string, 3>, ShareGroup> byPattern;
  uint64_t all = 0;
  for (const PeakShare &share : shares) {
    ShareGroup &group = byPattern[{withoutNumbers(share.name), share.memoryClass, withoutNumbers(share.reason)}];
    if (group.count++ == 0)
      group.first = share;
    group.layers.insert(share.layer);
    group.bytes += share.bytes;
    all += share.bytes;
  }
  std::vector<std::pair<std::array<std::string, 3>, ShareGroup>> sorted(byPattern.begin(), byPattern.end());
  llvm::sort(sorted, [](const auto &a, const auto &b) {
    return std::make_pair(b.second.bytes, a.first) < std::make_pair(a.second.bytes, b.first);
  });
  out << formatv("{0,16}  {1,-13} {2,-8} tensor: why it is there\n", "bytes", "class", "blocks");
  for (const auto &[pattern, group] : sorted) {
    bool isOne = group.count == 1;
    std::string name = isOne ? group.first.name : std::to_string(group.count) + " x " + pattern[0];
    const std::string &reason = isOne ? group.first.reason : pattern[2];
    out << formatv("{0,16}  {1,-13} {2,-8} {3}{4}\n", group.bytes, group.first.memoryClass, layersText(group.layers),
                   name, reason.empty() ? "" : ": " + reason);
  }
  out << formatv("{0,16}  in all: the peak\n", all);
}

} // namespace ztc::report
