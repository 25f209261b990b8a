#include "runtime/Core/File.h"
#include "runtime/Data/Sources.h"
#include <cstring>
#include <fmt/format.h>

namespace ztc {
namespace {

/// The tokens of a text file, in the file that was made of it.
struct Tokenized {
  MappedFile file;
  RowReader reader;
  uint64_t tokens;

  uint32_t tokenAt(uint64_t index) const { return loadToken(file.bytes().data() + sizeof(TokenFileHeader), index); }
  static uint32_t loadToken(const std::byte *bytes, uint64_t t) {
    uint32_t token = 0;
    std::memcpy(&token, bytes + t * sizeof token, sizeof token);
    return token;
  }
  StatusOr<const std::byte *> bytesOf(uint64_t first, uint64_t count) const {
    return reader.read(sizeof(TokenFileHeader) + first * sizeof(uint32_t), count * sizeof(uint32_t));
  }
  /// Tokens [first, first + count), and as targets each one's next.
  Status read(uint64_t first, uint64_t count, int32_t *tokens, int32_t *targets) const {
    ZTC_ASSIGN_OR_RETURN(const std::byte *bytes, bytesOf(first, count + 1));
    for (uint64_t t = 0; t <= count; ++t) {
      const uint32_t raw = loadToken(bytes, t);
      const auto token = static_cast<int32_t>(raw & kTokenId);
      if (t < count)
        tokens[t] = token;
      if (t > 0)
        targets[t - 1] = raw & kUncountedToken ? kIgnoredTarget : token;
    }
    return Status::ok();
  }
};

class TokenizedSource final : public TokenSource {
public:
  TokenizedSource(Tokenized from, uint64_t seq)
      : from_(std::move(from)), seq_(seq), rows_(from_.tokens ? (from_.tokens - 1) / seq : 0) {}

  uint64_t rows() const override { return rows_; }
  std::vector<std::span<const std::byte>> files() const override { return {from_.file.bytes()}; }

  Status readRow(uint64_t row, int32_t *tokens, int32_t *targets) const override {
    return from_.read(row * seq_, seq_, tokens, targets);
  }

  StatusOr<uint64_t> countTargets(uint64_t row) const override {
    ZTC_ASSIGN_OR_RETURN(const std::byte *bytes, from_.bytesOf(row * seq_, seq_ + 1));
    uint64_t counted = 0;
    for (uint64_t t = 1; t <= seq_; ++t)
      counted += !(Tokenized::loadToken(bytes, t) & kUncountedToken);
    return counted;
  }

private:
  Tokenized from_;
  uint64_t seq_;
  uint64_t rows_;
};

class TokenizedDocuments final : public DocumentSource {
public:
  explicit TokenizedDocuments(Tokenized from) : from_(std::move(from)) {
    uint64_t lastCounted = 0;
    const auto end = [&](uint64_t at) { // nothing is learned after the last target that counts
      if (!firsts_.empty())
        places_.push_back(lastCounted > firsts_.back() ? lastCounted - firsts_.back() : 0);
      firsts_.push_back(at);
    };
    for (uint64_t at = 0; at < from_.tokens; ++at) {
      const uint32_t token = from_.tokenAt(at);
      if (token & kDocumentBegins)
        end(at);
      if (!(token & kUncountedToken))
        lastCounted = at;
    }
    end(from_.tokens);
  }

  std::span<const uint64_t> places() const override { return places_; }
  std::span<const std::byte> bytes() const override { return from_.file.bytes(); }
  Status read(uint64_t document, uint64_t first, uint64_t count, int32_t *tokens, int32_t *targets) const override {
    return from_.read(firsts_[document] + first, count, tokens, targets);
  }

private:
  Tokenized from_;
  std::vector<uint64_t> firsts_, places_;
};

} // namespace

static StatusOr<Tokenized> openTokenized(const std::string &path, const RowShape &shape, const TextOptions &text) {
  ZTC_ASSIGN_OR_RETURN(const TokenFile made, tokenizeFile(path, text));
  auto mapped = MappedFile::open(made.path);
  if (!mapped.isOk())
    return mapped.status();
  auto reader = RowReader::open(*mapped);
  if (made.isTemporary)
    (void)removeAll(made.path).isOk(); // its content stays as long as it is open
  if (!reader.isOk())
    return reader.status();
  const auto header = readTokenFileHeader(mapped->bytes());
  if (!header)
    return dataLoss(
        fmt::format("'{}', which was made of '{}', was damaged since: start the run again", made.path, path));
  if (header->tokens > 0 && header->largest >= shape.vocabulary)
    return invalidArgument(
        fmt::format("'{}' becomes the token {} ({}), which lies beyond the model's vocabulary of {} (0 to {}): the "
                    "tokenizer in '{}' and the model do not belong together, or the model's embedding was not made "
                    "larger for it",
                    path, header->largest, text.tokenizer->describe(static_cast<int32_t>(header->largest)),
                    shape.vocabulary, shape.vocabulary - 1, text.tokenizer->folder));
  return Tokenized{std::move(*mapped), std::move(*reader), header->tokens};
}

StatusOr<std::unique_ptr<TokenSource>> openTokenizedSource(const std::string &path, const RowShape &shape,
                                                           const TextOptions &text) {
  ZTC_ASSIGN_OR_RETURN(Tokenized from, openTokenized(path, shape, text));
  return std::unique_ptr<TokenSource>(std::make_unique<TokenizedSource>(std::move(from), shape.seq));
}

StatusOr<std::unique_ptr<DocumentSource>> openTokenizedDocuments(const std::string &path, const RowShape &shape,
                                                                 const TextOptions &text) {
  if (!path.ends_with(".jsonl") && !path.ends_with(".json"))
    return invalidArgument(fmt::format(
        "'{}' does not say where its documents end, and the plan packs several into a row (--pack): write a .jsonl, "
        "each line of which is one ({{\"text\": ...}}), or compile without --pack",
        path));
  ZTC_ASSIGN_OR_RETURN(Tokenized from, openTokenized(path, shape, text));
  return std::unique_ptr<DocumentSource>(std::make_unique<TokenizedDocuments>(std::move(from)));
}

} // namespace ztc
