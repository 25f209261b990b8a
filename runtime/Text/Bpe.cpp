#include "runtime/Core/Print.h"
#include "runtime/Text/TokenModel.h"
#include "runtime/Text/Unicode.h"
#include <algorithm>
#include <array>
#include <bit>
#include <fmt/format.h>
#include <queue>

namespace ztc {

namespace {

constexpr uint32_t kNever = ~uint32_t(0);

/// What two tokens become, and how early.
struct Merge {
  uint32_t rank = kNever;
  int32_t token = 0;
};

/// Open addressing: this is looked at for each pair of tokens of each word.
class MergeTable {
public:
  explicit MergeTable(size_t merges) : slots_(std::bit_ceil(merges * 2 + 1)), mask_(slots_.size() - 1) {}
  /// The last of several for the same pair stays.
  void put(int32_t left, int32_t right, Merge merge) {
    Slot &slot = slots_[place(keyOf(left, right))];
    slot = {keyOf(left, right), merge};
  }
  Merge find(int32_t left, int32_t right) const { return slots_[place(keyOf(left, right))].merge; }

private:
  static constexpr uint64_t kFree = ~uint64_t(0);
  struct Slot {
    uint64_t key = kFree;
    Merge merge;
  };
  static uint64_t keyOf(int32_t left, int32_t right) {
    return uint64_t(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  size_t place(uint64_t key) const {
    uint64_t at = key * 0x9e3779b97f4a7c15;
    for (at ^= at >> 32;; ++at)
      if (const uint64_t found = slots_[at & mask_].key; found == key || found == kFree)
        return at & mask_;
  }
  std::vector<Slot> slots_;
  size_t mask_;
};

/// Words up to this long are searched from end to end for each merge; longer ones have a queue.
constexpr size_t kShortWord = 48;

struct Options {
  std::optional<std::string> unknown;
  std::string prefix; ///< of what continues a word
  std::string suffix; ///< of what ends one
  bool fusesUnknown = false;
  bool fallsBackToBytes = false;
  bool ignoresMerges = false; ///< a word that is a token needs none
};

class Bpe final : public TokenModel {
public:
  Bpe(Vocabulary vocabulary, MergeTable merges, Options options)
      : vocabulary_(std::move(vocabulary)), merges_(std::move(merges)), options_(std::move(options)) {
    isAffixed_ = !options_.prefix.empty() || !options_.suffix.empty();
    if (options_.unknown)
      unknownToken_ = vocabulary_.find(*options_.unknown);
    for (unsigned byte = 0; byte < 256; ++byte) {
      const std::optional<int32_t> id = vocabulary_.find(byteTokenText(static_cast<uint8_t>(byte)));
      byteTokens_[byte] = id.value_or(kMissing);
    }
    characters_.fill(kMissing);
    std::string text;
    for (char32_t c = 0; c < characters_.size(); ++c) {
      text.clear();
      appendCharacter(text, c);
      characters_[c] = vocabulary_.find(text).value_or(kMissing);
    }
  }

  const Vocabulary &vocabulary() const override { return vocabulary_; }
  size_t size() const override { return vocabulary_.size(); }

  Status encode(std::string_view piece, std::vector<int32_t> &tokens) const override {
    if (options_.ignoresMerges)
      if (const std::optional<int32_t> whole = vocabulary_.find(piece)) {
        tokens.push_back(*whole);
        return Status::ok();
      }
    static thread_local std::vector<int32_t> word;
    word.clear();
    ZTC_RETURN_IF_ERROR(spell(piece, word));
    if (word.size() <= kShortWord)
      mergeShort(word);
    else
      mergeLong(word);
    tokens.insert(tokens.end(), word.begin(), word.end());
    return Status::ok();
  }

private:
  static constexpr int32_t kMissing = -1;

  int32_t findCharacter(std::string_view piece, size_t begin, size_t end) const {
    if (!isAffixed_) {
      if (end - begin <= 2) {
        size_t at = begin;
        return characters_[nextCharacter(piece, at)];
      }
      return vocabulary_.find(piece.substr(begin, end - begin)).value_or(kMissing);
    }
    std::string text = begin > 0 ? options_.prefix : std::string();
    text += piece.substr(begin, end - begin);
    if (end == piece.size())
      text += options_.suffix;
    return vocabulary_.find(text).value_or(kMissing);
  }

  bool spellBytes(std::string_view character, std::vector<int32_t> &word) const {
    for (const char c : character)
      if (byteTokens_[static_cast<unsigned char>(c)] == kMissing)
        return false;
    for (const char c : character)
      word.push_back(byteTokens_[static_cast<unsigned char>(c)]);
    return true;
  }

  /// The tokens of the characters.
  Status spell(std::string_view piece, std::vector<int32_t> &word) const {
    bool unknownWaits = false;
    for (size_t begin = 0, end = 0; begin < piece.size(); begin = end) {
      end = begin + characterBytes(piece[begin]);
      const int32_t id = findCharacter(piece, begin, end);
      if (id != kMissing) {
        if (unknownWaits)
          word.push_back(*unknownToken_);
        unknownWaits = false;
        word.push_back(id);
        continue;
      }
      // An unknown character that waits stays after these bytes: so does the tokenizers library.
      if (options_.fallsBackToBytes && !isAffixed_ && spellBytes(piece.substr(begin, end - begin), word))
        continue;
      if (!options_.unknown)
        continue; // the character is lost
      if (!unknownToken_)
        return invalidArgument(
            fmt::format("the tokenizer's unk_token '{}' is not in its vocabulary", printable(*options_.unknown, 60)));
      if (unknownWaits && !options_.fusesUnknown)
        word.push_back(*unknownToken_);
      unknownWaits = true;
    }
    if (unknownWaits)
      word.push_back(*unknownToken_);
    return Status::ok();
  }

  void mergeShort(std::vector<int32_t> &word) const {
    std::array<Merge, kShortWord> merges; // of each token with the next one
    size_t size = word.size();
    for (size_t i = 0; i + 1 < size; ++i)
      merges[i] = merges_.find(word[i], word[i + 1]);
    while (size > 1) {
      size_t best = 0;
      for (size_t i = 1; i + 1 < size; ++i)
        if (merges[i].rank < merges[best].rank)
          best = i;
      if (merges[best].rank == kNever)
        break;
      word[best] = merges[best].token;
      std::copy(word.begin() + long(best) + 2, word.begin() + long(size), word.begin() + long(best) + 1);
      std::copy(merges.begin() + best + 2, merges.begin() + size, merges.begin() + best + 1);
      --size;
      if (best + 1 < size)
        merges[best] = merges_.find(word[best], word[best + 1]);
      if (best > 0)
        merges[best - 1] = merges_.find(word[best - 1], word[best]);
    }
    word.resize(size);
  }

  void mergeLong(std::vector<int32_t> &word) const {
    struct Symbol {
      int32_t token;
      uint32_t previous, next;
      uint32_t rank; ///< of the merge with the next one
    };
    struct Candidate {
      uint32_t rank, at;
      bool operator>(const Candidate &other) const { return rank != other.rank ? rank > other.rank : at > other.at; }
    };
    const auto size = static_cast<uint32_t>(word.size());
    std::vector<Symbol> symbols(size);
    std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
    const auto look = [&](uint32_t at) {
      Symbol &symbol = symbols[at];
      symbol.rank = symbol.next < size ? merges_.find(symbol.token, symbols[symbol.next].token).rank : kNever;
      if (symbol.rank != kNever)
        queue.push({symbol.rank, at});
    };
    for (uint32_t i = 0; i < size; ++i)
      symbols[i] = {word[i], i - 1, i + 1, kNever};
    for (uint32_t i = 0; i < size; ++i)
      look(i);
    while (!queue.empty()) {
      const Candidate top = queue.top();
      queue.pop();
      Symbol &left = symbols[top.at];
      if (left.token == kMissing || left.rank != top.rank)
        continue; // no longer there
      Symbol &right = symbols[left.next];
      left.token = merges_.find(left.token, right.token).token;
      right.token = kMissing;
      left.next = right.next;
      if (left.next < size)
        symbols[left.next].previous = top.at;
      look(top.at);
      if (left.previous < size)
        look(left.previous);
    }
    std::erase_if(symbols, [](const Symbol &symbol) { return symbol.token == kMissing; });
    word.clear();
    for (const Symbol &symbol : symbols)
      word.push_back(symbol.token);
  }

  Vocabulary vocabulary_;
  MergeTable merges_;
  Options options_;
  bool isAffixed_ = false;
  std::optional<int32_t> unknownToken_;
  std::array<int32_t, 256> byteTokens_{};
  std::array<int32_t, 0x800> characters_{}; ///< tokens of the characters of at most two bytes
};

/// ["a b", ...] or [["a", "b"], ...].
StatusOr<MergeTable> readMerges(const JsonFields &fields, const Vocabulary &vocabulary, const std::string &prefix) {
  ZTC_ASSIGN_OR_RETURN(const nlohmann::json *list, fields.array("merges"));
  MergeTable table(list->size());
  uint32_t rank = 0;
  for (const nlohmann::json &merge : *list) {
    std::string left, right;
    if (const auto *text = merge.get_ptr<const std::string *>()) {
      const size_t space = text->find(' ');
      if (space == std::string::npos || text->find(' ', space + 1) != std::string::npos)
        return fields.error(fmt::format("merge {} is not two tokens: '{}'", rank, printable(*text, 60)));
      left = text->substr(0, space);
      right = text->substr(space + 1);
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      left = *merge[0].get_ptr<const std::string *>();
      right = *merge[1].get_ptr<const std::string *>();
    } else {
      return fields.error(fmt::format("merge {} is not two tokens", rank));
    }
    const std::string both = left + (right.size() >= prefix.size() ? right.substr(prefix.size()) : "");
    const auto leftId = vocabulary.find(left), rightId = vocabulary.find(right), id = vocabulary.find(both);
    if (!leftId || !rightId || !id)
      return fields.error(fmt::format("merge {} names '{}', which is not in 'vocab'", rank,
                                      printable(!leftId    ? left
                                                : !rightId ? right
                                                           : both,
                                                60)));
    table.put(*leftId, *rightId, {rank++, *id});
  }
  return StatusOr<MergeTable>(std::move(table));
}

} // namespace

StatusOr<std::unique_ptr<TokenModel>> readBpe(const JsonFields &fields) {
  Options options;
  if (const nlohmann::json *dropout = fields.find("dropout");
      dropout && !(dropout->is_number() && dropout->get<double>() == 0))
    return fields.error("'dropout' gives other tokens each time: set it to null");
  if (fields.find("unk_token")) {
    ZTC_ASSIGN_OR_RETURN(options.unknown, fields.text("unk_token"));
  }
  ZTC_ASSIGN_OR_RETURN(options.prefix, fields.textOr("continuing_subword_prefix", ""));
  ZTC_ASSIGN_OR_RETURN(options.suffix, fields.textOr("end_of_word_suffix", ""));
  ZTC_ASSIGN_OR_RETURN(options.fusesUnknown, fields.flag("fuse_unk", false));
  ZTC_ASSIGN_OR_RETURN(options.fallsBackToBytes, fields.flag("byte_fallback", false));
  ZTC_ASSIGN_OR_RETURN(options.ignoresMerges, fields.flag("ignore_merges", false));
  ZTC_ASSIGN_OR_RETURN(Vocabulary vocabulary, Vocabulary::read(fields));
  ZTC_ASSIGN_OR_RETURN(MergeTable merges, readMerges(fields, vocabulary, options.prefix));
  return std::unique_ptr<TokenModel>(
      std::make_unique<Bpe>(std::move(vocabulary), std::move(merges), std::move(options)));
}

} // namespace ztc
