// SentencePiece's replacements as the tokenizers library applies them: by grapheme cluster, with the shortest entry
// that begins it.
#include "runtime/Text/Base64.h"
#include "runtime/Text/Normalizer.h"
#include "runtime/Text/Unicode.h"
#include <cstring>

namespace ztc {

namespace {

/// Clusters of this many bytes and more are looked up one character at a time.
constexpr size_t kLongCluster = 6;

class Precompiled final : public Normalizer {
public:
  Precompiled(std::vector<uint32_t> units, std::string replacements)
      : units_(std::move(units)), replacements_(std::move(replacements)) {}

  Status apply(NormalizedText &text) const override {
    std::string out;
    out.reserve(text.text.size());
    GraphemeReader graphemes(text.text);
    bool changed = false;
    size_t done = 0, start = 0; // of the text; of what comes from its first character
    const auto append = [&](std::string_view part) {
      const std::optional<std::string_view> found = find(part);
      changed |= found.has_value();
      if (found)
        out += *found;
      return found.has_value();
    };
    for (std::string_view cluster = graphemes.next(); !cluster.empty(); cluster = graphemes.next()) {
      const bool isStart = done < text.startBytes;
      done += cluster.size();
      if (cluster.size() < kLongCluster && append(cluster)) {
        start = isStart ? out.size() : start;
        continue;
      }
      for (size_t at = 0; at < cluster.size();) {
        const std::string_view part = cluster.substr(at, characterBytes(cluster[at]));
        if (!append(part))
          out += part;
        at += part.size();
      }
      start = isStart ? out.size() : start;
    }
    if (changed) {
      text.text = std::move(out);
      text.startBytes = start;
    }
    return Status::ok();
  }

private:
  // A unit of Darts' double array (darts-clone): offset of the children, label, whether a key ends at it.
  static uint32_t offsetOf(uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); }
  static uint32_t labelOf(uint32_t unit) { return unit & ((1u << 31) | 0xff); }
  static bool hasLeaf(uint32_t unit) { return unit >> 8 & 1; }

  /// The replacement of the shortest key that `part` begins with.
  std::optional<std::string_view> find(std::string_view part) const {
    uint32_t node = offsetOf(units_[0]);
    for (const char c : part) {
      const auto byte = static_cast<unsigned char>(c);
      node ^= byte;
      if (byte == 0 || node >= units_.size() || labelOf(units_[node]) != byte)
        return std::nullopt;
      const uint32_t unit = units_[node];
      node ^= offsetOf(unit);
      if (!hasLeaf(unit))
        continue;
      const uint32_t at = node < units_.size() ? units_[node] & 0x7fffffff : ~uint32_t(0);
      if (at > replacements_.size())
        return std::nullopt;
      return std::string_view(replacements_.data() + at); // each ends with a zero byte
    }
    return std::nullopt;
  }

  std::vector<uint32_t> units_;
  std::string replacements_;
};

} // namespace

StatusOr<std::unique_ptr<Normalizer>> readPrecompiledNormalizer(const JsonFields &fields) {
  ZTC_ASSIGN_OR_RETURN(const std::string encoded, fields.text("precompiled_charsmap"));
  const std::optional<std::string> decoded = decodeBase64(encoded);
  if (!decoded)
    return fields.error("'precompiled_charsmap' is not base64");
  uint32_t bytes = 0;
  if (decoded->size() < sizeof bytes)
    return fields.error("'precompiled_charsmap' is too short");
  std::memcpy(&bytes, decoded->data(), sizeof bytes);
  if (bytes == 0 || bytes % 4 != 0 || bytes > decoded->size() - sizeof bytes)
    return fields.error("'precompiled_charsmap' has a table that does not fit into it");
  std::vector<uint32_t> units(bytes / 4);
  std::memcpy(units.data(), decoded->data() + sizeof bytes, bytes);
  std::string replacements = decoded->substr(sizeof bytes + bytes);
  if (findInvalidUtf8(replacements))
    return fields.error("'precompiled_charsmap' has replacements that are not UTF-8");
  return std::unique_ptr<Normalizer>(std::make_unique<Precompiled>(std::move(units), std::move(replacements)));
}

} // namespace ztc
