#include "runtime/Text/Tokenizer.h"
#include "runtime/Core/File.h"
#include "runtime/Core/Print.h"
#include "runtime/Core/Sha256.h"
#include "runtime/Text/Unicode.h"
#include <algorithm>
#include <cstring>
#include <fmt/format.h>

namespace ztc {

namespace {

/// The largest known ones have 35 MB.
constexpr uint64_t kLargestFile = uint64_t(512) << 20;
constexpr size_t kCachedWords = 1 << 16;
constexpr size_t kLongestCachedWord = 128;

} // namespace

WordCache::WordCache() : entries_(kCachedWords) {}

uint64_t WordCache::hashOf(std::string_view word) {
  uint64_t hash = word.size() * 0x9e3779b97f4a7c15;
  const char *at = word.data();
  const auto mix = [&](uint64_t piece) {
    hash = (hash ^ piece) * 0xd6e8feb86659fd93;
    hash ^= hash >> 32;
  };
  size_t left = word.size();
  for (; left >= 8; left -= 8, at += 8) {
    uint64_t piece = 0;
    std::memcpy(&piece, at, 8);
    mix(piece);
  }
  uint64_t piece = 0;
  std::memcpy(&piece, at, left);
  mix(piece);
  return hash ^ hash >> 29;
}

const std::vector<int32_t> *WordCache::find(std::string_view word, uint64_t hash) const {
  const Entry &entry = entries_[hash % kCachedWords];
  return entry.hash == hash && entry.word == word ? &entry.tokens : nullptr;
}

void WordCache::put(std::string_view word, uint64_t hash, std::span<const int32_t> tokens) {
  Entry &entry = entries_[hash % kCachedWords];
  entry.hash = hash;
  entry.word = word;
  entry.tokens.assign(tokens.begin(), tokens.end());
}

StatusOr<Tokenizer> Tokenizer::open(const std::string &folder) {
  const std::string path = folder + "/tokenizer.json";
  if (!isFolder(folder))
    return invalidArgument(fmt::format("'{}' is not a folder; give one that holds a tokenizer.json", folder));
  if (!pathExists(path))
    return notFound(fmt::format("'{}' has no tokenizer.json{}", folder,
                                pathExists(folder + "/tokenizer.model")
                                    ? ": of tokenizer.model, transformers' AutoTokenizer makes one (save_pretrained)"
                                    : ""));
  ZTC_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::open(path));
  if (file.size() > kLargestFile)
    return invalidArgument(
        fmt::format("'{}' has {} bytes, a tokenizer.json has {} at most", path, file.size(), kLargestFile));
  ZTC_ASSIGN_OR_RETURN(const std::string text, readWholeFile(path));
  return parse(text, path);
}

StatusOr<Tokenizer> Tokenizer::parse(std::string_view text, const std::string &path) {
  const nlohmann::json json = parseJson(text);
  const auto at = [&](const Status &status) { return status.withContext(fmt::format("'{}'", path)); };
  if (!json.is_object())
    return invalidArgument(fmt::format("'{}' is not a JSON object", path));
  const auto part = [&](const char *name) {
    const auto found = json.find(name);
    return found == json.end() ? nullptr : &*found;
  };
  Tokenizer out;
  auto normalizer = Normalizer::read(part("normalizer"), "normalizer");
  auto preTokenizer = PreTokenizer::read(part("pre_tokenizer"), "pre_tokenizer");
  auto model = TokenModel::read(part("model"), "model");
  auto postProcessor = PostProcessor::read(part("post_processor"), "post_processor");
  auto decoder = Decoder::read(part("decoder"), "decoder");
  for (const Status &status :
       {normalizer.status(), preTokenizer.status(), model.status(), postProcessor.status(), decoder.status()})
    if (!status.isOk())
      return at(status);
  out.normalizer_ = std::move(*normalizer);
  out.preTokenizer_ = std::move(*preTokenizer);
  out.model_ = std::move(*model);
  out.postProcessor_ = std::move(*postProcessor);
  out.decoder_ = std::move(*decoder);
  auto added = AddedTokens::read(part("added_tokens"), *out.model_, out.normalizer_.get());
  if (!added.isOk())
    return at(added.status());
  out.added_ = std::move(*added);
  out.endOfIds_ = out.added_.endOfIds();
  for (const auto &[token, id] : out.model_->vocabulary().all())
    out.endOfIds_ = std::max(out.endOfIds_, id + 1);
  out.sha256_ = Sha256::hex(Sha256::of(text.data(), text.size()));
  return StatusOr<Tokenizer>(std::move(out));
}

Status Tokenizer::encode(std::string_view text, bool addsSpecial, std::vector<int32_t> &tokens,
                         WordCache &cache) const {
  if (const std::optional<size_t> bad = findInvalidUtf8(text))
    return invalidArgument(fmt::format("byte {} is not UTF-8", *bad));
  const size_t from = tokens.size();
  Pieces pieces;
  ZTC_RETURN_IF_ERROR(added_.extract(text, normalizer_.get(), pieces));
  if (preTokenizer_)
    ZTC_RETURN_IF_ERROR(preTokenizer_->apply(pieces));
  for (const Piece &piece : pieces.pieces) {
    if (piece.token != kNoToken) {
      tokens.push_back(piece.token);
      continue;
    }
    const std::string_view word = pieces.of(piece);
    if (word.size() > kLongestCachedWord) {
      ZTC_RETURN_IF_ERROR(model_->encode(word, tokens));
      continue;
    }
    const uint64_t hash = WordCache::hashOf(word);
    if (const std::vector<int32_t> *known = cache.find(word, hash)) {
      tokens.insert(tokens.end(), known->begin(), known->end());
      continue;
    }
    const size_t before = tokens.size();
    ZTC_RETURN_IF_ERROR(model_->encode(word, tokens));
    cache.put(word, hash, std::span(tokens).subspan(before));
  }
  if (addsSpecial)
    postProcessor_.apply(tokens, from);
  return Status::ok();
}

StatusOr<std::string> Tokenizer::decode(std::span<const int32_t> tokens, bool skipsSpecial) const {
  std::vector<std::string> texts;
  for (const int32_t token : tokens) {
    if (const AddedToken *added = added_.find(token)) {
      if (!skipsSpecial || !added->special)
        texts.push_back(added->sought);
    } else if (const std::optional<std::string_view> known = model_->vocabulary().text(token)) {
      texts.emplace_back(*known);
    }
  }
  if (decoder_)
    ZTC_RETURN_IF_ERROR(decoder_->apply(texts));
  std::string all;
  for (const std::string &text : texts)
    all += (decoder_ || all.empty() ? "" : " ") + text;
  return StatusOr<std::string>(std::move(all));
}

Tokenizer::Surroundings Tokenizer::surroundings() const {
  constexpr int32_t kHere = -2; // no token
  std::vector<int32_t> tokens{kHere};
  postProcessor_.apply(tokens, 0);
  const auto here = std::find(tokens.begin(), tokens.end(), kHere);
  Surroundings out;
  out.before.assign(tokens.begin(), here);
  if (here != tokens.end())
    out.after.assign(here + 1, tokens.end());
  return out;
}

std::optional<std::string> Tokenizer::textOf(int32_t token) const {
  if (const AddedToken *added = added_.find(token))
    return added->content;
  const std::optional<std::string_view> known = model_->vocabulary().text(token);
  return known ? std::optional<std::string>(*known) : std::nullopt;
}

std::optional<int32_t> Tokenizer::idOf(std::string_view text) const {
  const std::optional<int32_t> added = added_.idOf(text);
  return added ? added : model_->vocabulary().find(text);
}

TextStream::TextStream(const Tokenizer &tokenizer, std::span<const int32_t> before)
    : tokenizer_(tokenizer), goesOn_(!before.empty()) {
  constexpr size_t kNeighbours = 8; // more than the bytes of a character
  const auto last = before.last(std::min(before.size(), kNeighbours));
  tokens_.assign(last.begin(), last.end());
  told_ = tokens_.size();
}

StatusOr<std::string> TextStream::textOf(size_t tokens) const {
  return tokenizer_.decode(std::span(tokens_).first(tokens), !goesOn_);
}

StatusOr<std::string> TextStream::push(int32_t token) {
  if (goesOn_ && tokenizer_.isSpecial(token)) {
    StatusOr<std::string> rest = finish();
    tokens_ = {token};
    told_ = 1;
    return rest;
  }
  tokens_.push_back(token);
  ZTC_ASSIGN_OR_RETURN(const std::string before, textOf(told_));
  ZTC_ASSIGN_OR_RETURN(const std::string all, textOf(tokens_.size()));
  if (all.size() <= before.size() || all.ends_with("\xef\xbf\xbd"))
    return std::string();
  std::string added = all.substr(before.size());
  tokens_.erase(tokens_.begin(), tokens_.begin() + long(told_));
  told_ = tokens_.size();
  return StatusOr<std::string>(std::move(added));
}

StatusOr<std::string> TextStream::finish() {
  ZTC_ASSIGN_OR_RETURN(const std::string before, textOf(told_));
  ZTC_ASSIGN_OR_RETURN(const std::string all, textOf(tokens_.size()));
  tokens_.clear();
  told_ = 0;
  return all.size() <= before.size() ? std::string() : all.substr(before.size());
}

} // namespace ztc
