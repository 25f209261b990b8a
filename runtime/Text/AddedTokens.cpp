#include "runtime/Text/AddedTokens.h"
#include "runtime/Text/Unicode.h"
#include <algorithm>

namespace ztc {

void TextFinder::add(std::string_view text, int32_t token) {
  if (text.empty())
    return;
  begins_[static_cast<unsigned char>(text[0])] = true;
  uint32_t node = 0;
  for (const char c : text) {
    const auto [at, isNew] = nodes_[node].next.try_emplace(c, static_cast<uint32_t>(nodes_.size()));
    node = at->second;
    if (isNew)
      nodes_.emplace_back();
  }
  nodes_[node].token = token;
}

TextFinder::Found TextFinder::find(std::string_view text, size_t from) const {
  for (size_t begin = from; begin < text.size(); ++begin) {
    if (!begins_[static_cast<unsigned char>(text[begin])])
      continue;
    Found found;
    uint32_t node = 0;
    for (size_t end = begin; end < text.size();) {
      const auto next = nodes_[node].next.find(text[end++]);
      if (next == nodes_[node].next.end())
        break;
      node = next->second;
      if (nodes_[node].token != kNoToken)
        found = {begin, end, nodes_[node].token};
    }
    if (found.token != kNoToken)
      return found;
  }
  return {text.size(), text.size(), kNoToken};
}

static StatusOr<AddedToken> readToken(const nlohmann::json &json) {
  ZTC_ASSIGN_OR_RETURN(const JsonFields fields, JsonFields::of(json, "added_tokens"));
  AddedToken token;
  ZTC_ASSIGN_OR_RETURN(token.content, fields.text("content"));
  ZTC_ASSIGN_OR_RETURN(token.special, fields.flag("special", false));
  ZTC_ASSIGN_OR_RETURN(token.normalized, fields.flag("normalized", !token.special));
  ZTC_ASSIGN_OR_RETURN(token.singleWord, fields.flag("single_word", false));
  ZTC_ASSIGN_OR_RETURN(token.stripsLeft, fields.flag("lstrip", false));
  ZTC_ASSIGN_OR_RETURN(token.stripsRight, fields.flag("rstrip", false));
  return StatusOr<AddedToken>(std::move(token));
}

StatusOr<AddedTokens> AddedTokens::read(const nlohmann::json *json, const TokenModel &model,
                                        const Normalizer *normalizer) {
  AddedTokens out;
  if (!json || json->is_null())
    return StatusOr<AddedTokens>(std::move(out));
  if (!json->is_array())
    return invalidArgument("added_tokens is not an array");
  auto nextId = static_cast<int32_t>(model.size());
  for (const nlohmann::json &one : *json) {
    ZTC_ASSIGN_OR_RETURN(AddedToken token, readToken(one));
    if (token.content.empty())
      continue;
    std::optional<int32_t> id = out.idOf(token.content);
    if (!id)
      id = model.vocabulary().find(token.content);
    if (!id)
      id = nextId++;
    NormalizedText sought{.text = token.content, .startBytes = characterBytes(token.content[0])};
    if (token.normalized && normalizer)
      ZTC_RETURN_IF_ERROR(normalizer->apply(sought));
    token.sought = std::move(sought.text);
    out.ids_[token.content] = *id;
    out.tokens_[*id] = std::move(token);
  }
  for (const auto &[id, token] : out.tokens_)
    (token.normalized ? out.normalized_ : out.given_).add(token.sought, id);
  return StatusOr<AddedTokens>(std::move(out));
}

const AddedToken *AddedTokens::find(int32_t id) const {
  const auto found = tokens_.find(id);
  return found == tokens_.end() ? nullptr : &found->second;
}

std::optional<int32_t> AddedTokens::idOf(std::string_view content) const {
  const auto found = ids_.find(content);
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

/// White space at the end of text[0, end) begins here.
static size_t trailingSpace(std::string_view text, size_t end) {
  while (end > 0) {
    size_t begin = end;
    if (!isWhiteSpace(previousCharacter(text, begin)))
      break;
    end = begin;
  }
  return end;
}

static size_t leadingSpace(std::string_view text, size_t begin) {
  while (begin < text.size()) {
    size_t end = begin;
    if (!isWhiteSpace(nextCharacter(text, end)))
      break;
    begin = end;
  }
  return begin;
}

static bool isInsideWord(std::string_view text, size_t begin, size_t end) {
  if (begin > 0) {
    size_t before = begin;
    if (isWordCharacter(previousCharacter(text, before)))
      return true;
  }
  return end < text.size() && isWordCharacter(nextCharacter(text, end));
}

void AddedTokens::cut(std::string_view text, size_t startBytes, const TextFinder &finder,
                      std::vector<Piece> &pieces) const {
  size_t done = 0;
  for (size_t at = 0; !finder.isEmpty() && at < text.size();) {
    const TextFinder::Found found = finder.find(text, at);
    if (found.token == kNoToken)
      break;
    at = found.end;
    const AddedToken &token = *find(found.token);
    if (token.singleWord && isInsideWord(text, found.begin, found.end))
      continue;
    // What the token before it took is taken; what both want belongs to that one.
    const size_t begin = token.stripsLeft ? std::max(trailingSpace(text, found.begin), done) : found.begin;
    const size_t end = token.stripsRight ? leadingSpace(text, found.end) : found.end;
    if (done < begin)
      pieces.push_back({done, begin, kNoToken, done < startBytes});
    pieces.push_back({begin, end, found.token, begin < startBytes});
    done = end;
  }
  if (done < text.size())
    pieces.push_back({done, text.size(), kNoToken, done < startBytes});
}

Status AddedTokens::extract(std::string_view text, const Normalizer *normalizer, Pieces &pieces) const {
  pieces.text.clear();
  pieces.pieces.clear();
  std::vector<Piece> given, inner;
  cut(text, 1, given_, given);
  NormalizedText normalized;
  for (const Piece &piece : given) {
    const std::string_view part = text.substr(piece.begin, piece.end - piece.begin);
    const size_t base = pieces.text.size();
    if (piece.token != kNoToken) {
      pieces.text += part;
      pieces.pieces.push_back({base, pieces.text.size(), piece.token, piece.atStart});
      continue;
    }
    normalized.text = part;
    normalized.startBytes = characterBytes(part[0]);
    if (normalizer)
      ZTC_RETURN_IF_ERROR(normalizer->apply(normalized));
    inner.clear();
    cut(normalized.text, normalized.startBytes, normalized_, inner);
    for (const Piece &found : inner)
      pieces.pieces.push_back({base + found.begin, base + found.end, found.token, piece.atStart && found.atStart});
    pieces.text += normalized.text;
  }
  return Status::ok();
}

} // namespace ztc
