#include "runtime/Core/Print.h"
#include "runtime/Text/TokenModel.h"
#include "runtime/Text/Unicode.h"
#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <limits>

namespace ztc {

namespace {

/// How much less likely an unknown character is than the rarest token.
constexpr double kUnknownPenalty = 10;

/// Tokens by their bytes: nodes and edges in one open-addressed table.
class Trie {
public:
  void add(std::string_view text, int32_t token) {
    uint32_t node = 0;
    for (const char c : text) {
      if ((edges_ + 1) * 2 > slots_.size())
        grow();
      Slot &slot = slots_[place(keyOf(node, c))];
      if (slot.key == kFree) {
        slot = {keyOf(node, c), static_cast<uint32_t>(tokens_.size())};
        tokens_.push_back(-1);
        ++edges_;
      }
      node = slot.node;
    }
    tokens_[node] = token;
  }
  static constexpr uint32_t kNowhere = ~uint32_t(0);
  uint32_t step(uint32_t node, char c) const { return slots_[place(keyOf(node, c))].node; }
  /// -1 where none ends.
  int32_t tokenAt(uint32_t node) const { return tokens_[node]; }

private:
  static constexpr uint64_t kFree = ~uint64_t(0);
  struct Slot {
    uint64_t key = kFree;
    uint32_t node = kNowhere;
  };
  static uint64_t keyOf(uint32_t node, char c) { return uint64_t(node) << 8 | static_cast<unsigned char>(c); }
  size_t place(uint64_t key) const {
    const size_t mask = slots_.size() - 1;
    uint64_t at = key * 0x9e3779b97f4a7c15;
    for (at ^= at >> 32;; ++at)
      if (const uint64_t found = slots_[at & mask].key; found == key || found == kFree)
        return at & mask;
  }
  void grow() {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    for (const Slot &slot : old)
      if (slot.key != kFree)
        slots_[place(slot.key)] = slot;
  }
  std::vector<Slot> slots_ = std::vector<Slot>(1 << 10);
  std::vector<int32_t> tokens_ = {-1};
  size_t edges_ = 0;
};

class Unigram final : public TokenModel {
public:
  Unigram(Vocabulary vocabulary, std::vector<double> scores, std::optional<int32_t> unknown, bool fallsBackToBytes)
      : vocabulary_(std::move(vocabulary)), scores_(std::move(scores)), unknown_(unknown),
        fallsBackToBytes_(fallsBackToBytes) {
    double least = std::numeric_limits<double>::infinity();
    for (const double score : scores_)
      least = std::min(least, score);
    unknownScore_ = least - kUnknownPenalty;
    for (const auto &[text, id] : vocabulary_.all())
      trie_.add(text, id);
  }

  const Vocabulary &vocabulary() const override { return vocabulary_; }
  size_t size() const override { return scores_.size(); }

  Status encode(std::string_view piece, std::vector<int32_t> &tokens) const override {
    static thread_local std::vector<Best> best;
    ZTC_RETURN_IF_ERROR(segment(piece, best));
    static thread_local std::vector<std::pair<size_t, size_t>> parts; // from the last to the first
    parts.clear();
    bool lastUnknown = false;
    for (size_t end = piece.size(); end > 0; end = best[end].begin) {
      const bool isUnknown = unknown_ && best[end].token == *unknown_;
      if (isUnknown && lastUnknown)
        parts.back().first = best[end].begin;
      else
        parts.emplace_back(best[end].begin, end);
      lastUnknown = isUnknown;
    }
    for (auto part = parts.rbegin(); part != parts.rend(); ++part)
      ZTC_RETURN_IF_ERROR(append(piece.substr(part->first, part->second - part->first), tokens));
    return Status::ok();
  }

private:
  /// The likeliest way to a place in the piece.
  struct Best {
    double score = 0;
    size_t begin = kNone; ///< of its last part
    int32_t token = 0;    ///< of its last part
  };
  static constexpr size_t kNone = ~size_t(0);

  Status segment(std::string_view piece, std::vector<Best> &best) const {
    best.assign(piece.size() + 1, {});
    const auto offer = [&](size_t begin, size_t end, double score, int32_t token) {
      if (best[end].begin == kNone || score > best[end].score)
        best[end] = {score, begin, token};
    };
    for (size_t begin = 0; begin < piece.size();) {
      const double here = best[begin].score;
      const size_t next = begin + characterBytes(piece[begin]);
      bool isKnown = false; // the character alone
      uint32_t node = 0;
      for (size_t end = begin; end < piece.size();) {
        node = trie_.step(node, piece[end++]);
        if (node == Trie::kNowhere)
          break;
        const int32_t token = trie_.tokenAt(node);
        if (token < 0)
          continue;
        offer(begin, end, scores_[static_cast<size_t>(token)] + here, token);
        isKnown |= end == next;
      }
      if (!isKnown) {
        if (!unknown_)
          return invalidArgument("the tokenizer has no token for unknown characters (unk_id), and there is one");
        offer(begin, next, unknownScore_ + here, *unknown_);
      }
      begin = next;
    }
    return Status::ok();
  }

  Status append(std::string_view part, std::vector<int32_t> &tokens) const {
    if (const std::optional<int32_t> known = vocabulary_.find(part)) {
      tokens.push_back(*known);
      return Status::ok();
    }
    if (fallsBackToBytes_) {
      std::vector<int32_t> bytes;
      for (const char c : part)
        if (const auto id = vocabulary_.find(byteTokenText(static_cast<uint8_t>(c))))
          bytes.push_back(*id);
      if (bytes.size() == part.size()) {
        tokens.insert(tokens.end(), bytes.begin(), bytes.end());
        return Status::ok();
      }
    }
    tokens.push_back(*unknown_);
    return Status::ok();
  }

  Vocabulary vocabulary_;
  std::vector<double> scores_; ///< by id
  std::optional<int32_t> unknown_;
  bool fallsBackToBytes_;
  double unknownScore_ = 0;
  Trie trie_;
};

/// The score as the tokenizers library has it: its JSON reader takes the digits for a whole number and divides that by
/// a power of ten, which may be off by the last bit; and between two segmentations of the same score that bit decides.
double asTokenizersReads(double score) {
  char text[32]; // the digits that tell the number apart: d.ddde-dd
  const char *end = std::to_chars(text, text + sizeof text, std::abs(score), std::chars_format::scientific).ptr;
  uint64_t digits = 0;
  int exponent = 0;
  bool isFraction = false;
  const char *at = text;
  for (; at != end && *at != 'e'; ++at) {
    isFraction |= *at == '.';
    if (*at == '.')
      continue;
    digits = digits * 10 + static_cast<uint64_t>(*at - '0');
    exponent -= isFraction;
  }
  int given = 0;
  if (at != end)
    std::from_chars(at + (at[1] == '+' ? 2 : 1), end, given);
  exponent += given;
  double power = 0;
  const std::string powerText = fmt::format("1e{}", std::abs(exponent));
  const auto read = std::from_chars(powerText.data(), powerText.data() + powerText.size(), power);
  if (at == end || read.ec != std::errc())
    return score; // infinite, or next to nothing
  const auto whole = static_cast<double>(digits);
  return std::copysign(exponent < 0 ? whole / power : whole * power, score);
}

} // namespace

StatusOr<std::unique_ptr<TokenModel>> readUnigram(const JsonFields &fields) {
  ZTC_ASSIGN_OR_RETURN(const nlohmann::json *list, fields.array("vocab"));
  Vocabulary vocabulary;
  std::vector<double> scores;
  for (const nlohmann::json &entry : *list) {
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number())
      return fields.error(fmt::format("entry {} of 'vocab' is not a token with its score", scores.size()));
    vocabulary.add(*entry[0].get_ptr<const std::string *>(), static_cast<int32_t>(scores.size()));
    scores.push_back(asTokenizersReads(entry[1].get<double>()));
  }
  ZTC_ASSIGN_OR_RETURN(const bool fallsBackToBytes, fields.flag("byte_fallback", false));
  std::optional<int32_t> unknown;
  if (const nlohmann::json *id = fields.find("unk_id")) {
    unknown = tokenIdOf(*id);
    if (!unknown || static_cast<size_t>(*unknown) >= scores.size())
      return fields.error(fmt::format("'unk_id' is not one of the {} tokens", scores.size()));
  }
  return std::unique_ptr<TokenModel>(
      std::make_unique<Unigram>(std::move(vocabulary), std::move(scores), unknown, fallsBackToBytes));
}

} // namespace ztc
