#include "runtime/Core/File.h"
#include "runtime/Data/Sources.h"
#include <algorithm>
#include <cstring>
#include <fmt/format.h>

namespace ztc {
namespace {

/// A stream of tokens in a file: where they are, and how wide.
struct StreamPlace {
  MappedFile file;
  uint64_t begin = 0; ///< byte of the first token
  uint64_t tokens = 0;
  uint64_t tokenBytes = 2;
  bool isSigned = false;
};

/// Tokens of one integer type inside a mapped file.
template <typename Token> class TokenStream {
public:
  TokenStream(StreamPlace place, RowReader reader, uint64_t vocabulary)
      : place_(std::move(place)), reader_(std::move(reader)), vocabulary_(vocabulary) {}
  const StreamPlace &place() const { return place_; }

  /// Tokens [first, first + count) of the file, and as targets each one's next.
  Status read(uint64_t first, uint64_t count, int32_t *tokens, int32_t *targets) const {
    ZTC_ASSIGN_OR_RETURN(const std::byte *bytes,
                         reader_.read(place_.begin + first * sizeof(Token), (count + 1) * sizeof(Token)));
    for (uint64_t t = 0; t <= count; ++t) {
      Token raw;
      std::memcpy(&raw, bytes + t * sizeof(Token), sizeof(Token));
      const int64_t token = raw; // NOLINT(bugprone-signed-char-misuse): no type of tokens is a character
      if (token < 0 || static_cast<uint64_t>(token) >= vocabulary_)
        return invalidArgument(fmt::format(
            "'{}' holds the token {} at byte {} (token {} of the file), the model's vocabulary ends at {}",
            place_.file.path(), token, place_.begin + (first + t) * sizeof(Token), first + t, vocabulary_ - 1));
      if (t < count)
        tokens[t] = static_cast<int32_t>(token);
      if (t > 0)
        targets[t - 1] = static_cast<int32_t>(token);
    }
    return Status::ok();
  }

private:
  StreamPlace place_;
  RowReader reader_;
  uint64_t vocabulary_;
};

/// Rows of a stream.
template <typename Token> class StreamSource final : public TokenSource {
public:
  StreamSource(TokenStream<Token> stream, uint64_t seq)
      : stream_(std::move(stream)), seq_(seq), rows_(stream_.place().tokens ? (stream_.place().tokens - 1) / seq : 0) {}

  uint64_t rows() const override { return rows_; }
  std::vector<std::span<const std::byte>> files() const override { return {stream_.place().file.bytes()}; }
  Status readRow(uint64_t row, int32_t *tokens, int32_t *targets) const override {
    return stream_.read(row * seq_, seq_, tokens, targets);
  }
  StatusOr<uint64_t> countTargets(uint64_t) const override { return seq_; }

private:
  TokenStream<Token> stream_;
  uint64_t seq_, rows_;
};

/// Documents of a stream, of which document i is tokens [firsts[i], firsts[i + 1]).
template <typename Token> class StreamDocuments final : public DocumentSource {
public:
  StreamDocuments(TokenStream<Token> stream, std::vector<uint64_t> firsts)
      : stream_(std::move(stream)), firsts_(std::move(firsts)) {
    for (size_t i = 0; i + 1 < firsts_.size(); ++i)
      places_.push_back(std::max<uint64_t>(firsts_[i + 1] - firsts_[i], 1) - 1);
  }

  std::span<const uint64_t> places() const override { return places_; }
  std::span<const std::byte> bytes() const override { return stream_.place().file.bytes(); }
  Status read(uint64_t document, uint64_t first, uint64_t count, int32_t *tokens, int32_t *targets) const override {
    return stream_.read(firsts_[document] + first, count, tokens, targets);
  }

private:
  TokenStream<Token> stream_;
  std::vector<uint64_t> firsts_, places_;
};

/// Calls `make` with the stream of the place's type of tokens.
template <typename Make> auto withStream(StreamPlace place, RowReader reader, uint64_t vocabulary, Make &&make) {
  const auto as = [&]<typename Token>(Token) {
    return make(TokenStream<Token>(std::move(place), std::move(reader), vocabulary));
  };
  switch (place.isSigned ? 100 + place.tokenBytes : place.tokenBytes) {
  case 1:
    return as(uint8_t());
  case 101:
    return as(int8_t());
  case 102:
    return as(int16_t());
  case 4:
    return as(uint32_t());
  case 104:
    return as(int32_t());
  case 108:
    return as(int64_t());
  default:
    return as(uint16_t());
  }
}

StatusOr<std::unique_ptr<TokenSource>> makeRows(StreamPlace place, const RowShape &shape) {
  ZTC_ASSIGN_OR_RETURN(RowReader reader, RowReader::open(place.file));
  return withStream(std::move(place), std::move(reader), shape.vocabulary,
                    [&]<typename Token>(TokenStream<Token> stream) -> std::unique_ptr<TokenSource> {
                      return std::make_unique<StreamSource<Token>>(std::move(stream), shape.seq);
                    });
}

StatusOr<std::unique_ptr<DocumentSource>> makeDocuments(StreamPlace place, const RowShape &shape,
                                                        std::vector<uint64_t> firsts) {
  ZTC_ASSIGN_OR_RETURN(RowReader reader, RowReader::open(place.file));
  return withStream(std::move(place), std::move(reader), shape.vocabulary,
                    [&]<typename Token>(TokenStream<Token> stream) -> std::unique_ptr<DocumentSource> {
                      return std::make_unique<StreamDocuments<Token>>(std::move(stream), std::move(firsts));
                    });
}

/// Where documents begin that each end with the token `end`, and the end of the last.
std::vector<uint64_t> documentsEndingWith(const StreamPlace &place, uint64_t end) {
  std::vector<uint64_t> firsts{0};
  const std::byte *bytes = place.file.bytes().data() + place.begin;
  for (uint64_t i = 0; i < place.tokens; ++i) {
    uint64_t token = 0; // little-endian
    std::memcpy(&token, bytes + i * place.tokenBytes, place.tokenBytes);
    if (token == end)
      firsts.push_back(i + 1);
  }
  if (firsts.back() != place.tokens)
    firsts.push_back(place.tokens);
  return firsts;
}

StatusOr<std::unique_ptr<DocumentSource>> cutDocuments(StreamPlace place, const RowShape &shape,
                                                       std::optional<uint64_t> documentEnd) {
  const std::string &path = place.file.path();
  if (!documentEnd)
    return invalidArgument(
        fmt::format("'{}' does not say where its documents end, and the plan packs several into a row (--pack): give "
                    "--document-end=ID, the token that ends each (of GPT-2's tokenizer 50256); or chats "
                    "(.safetensors), .jsonl with --tokenizer=FOLDER, or Megatron's .idx; or compile without --pack",
                    path));
  std::vector<uint64_t> firsts = documentsEndingWith(place, *documentEnd);
  if (firsts.size() <= 2 && place.tokens > 0)
    return invalidArgument(
        fmt::format("--document-end={}: '{}' has no such token before its last one, so that it would be one document "
                    "of {} tokens",
                    *documentEnd, path, place.tokens));
  return makeDocuments(std::move(place), shape, std::move(firsts));
}

} // namespace

template <typename T> static T loadAt(const MappedFile &file, uint64_t offset) {
  T value;
  std::memcpy(&value, file.bytes().data() + offset, sizeof(T));
  return value;
}

/// llm.c's header: 256 numbers of which the first three are magic, version and the count of tokens.
static StatusOr<StreamPlace> findLlmc(MappedFile file, int32_t magic, uint64_t tokenBytes) {
  constexpr uint64_t kHeaderBytes = 256 * 4;
  const int32_t expected = tokenBytes == 2 ? 1 : 7;
  if (file.size() < kHeaderBytes)
    return dataLoss(fmt::format("'{}' is truncated: {} bytes are less than its header of {}", file.path(), file.size(),
                                kHeaderBytes));
  const auto version = loadAt<int32_t>(file, 4), tokens = loadAt<int32_t>(file, 8);
  if (version != expected)
    return invalidArgument(
        fmt::format("'{}' is a token file of llm.c with magic {} and version {}; version {} is known", file.path(),
                    magic, version, expected));
  if (tokens < 0 || kHeaderBytes + static_cast<uint64_t>(tokens) * tokenBytes > file.size())
    return dataLoss(fmt::format("'{}' is truncated: its header promises {} tokens, {} are there", file.path(), tokens,
                                (file.size() - kHeaderBytes) / tokenBytes));
  if (const uint64_t there = (file.size() - kHeaderBytes) / tokenBytes; there > static_cast<uint64_t>(tokens))
    return dataLoss(fmt::format("'{}' holds {} tokens, its header promises {}: the rest would be left out; write the "
                                "header anew, or cut the file to what it says",
                                file.path(), there, tokens));
  return StreamPlace{std::move(file), kHeaderBytes, static_cast<uint64_t>(tokens), tokenBytes};
}

/// True where every second 16-bit number is 0, as the upper halves of small 32-bit ones are.
static bool looksLikeWideTokens(const MappedFile &file) {
  constexpr uint64_t kLooked = uint64_t(1) << 20;
  const uint64_t pairs = std::min(file.size(), kLooked) / 4;
  bool hasNumbers = false;
  for (uint64_t i = 0; i < pairs; ++i) {
    if (loadAt<uint16_t>(file, 4 * i + 2) != 0)
      return false;
    hasNumbers = hasNumbers || loadAt<uint16_t>(file, 4 * i) != 0;
  }
  return hasNumbers;
}

/// A headerless file.
static StatusOr<StreamPlace> findBare(MappedFile file, const RowShape &shape) {
  constexpr uint64_t kLargest16 = 1 << 16;
  if (shape.tokenBytes == 0 && shape.vocabulary > kLargest16)
    return invalidArgument(fmt::format(
        "'{}' has no header that says how wide its tokens are, and the ids of a vocabulary of {} do not fit 16 bits: "
        "give --token-bytes=4 (or 2, where only ids below 65536 are in it)",
        file.path(), shape.vocabulary));
  if (shape.tokenBytes == 0 && looksLikeWideTokens(file))
    return invalidArgument(fmt::format("'{}' has no header, and every second of its 16-bit numbers is 0: its tokens "
                                       "have 32 bits; give --token-bytes=4 (or 2, if it is meant so)",
                                       file.path()));
  const uint64_t tokenBytes = shape.tokenBytes ? shape.tokenBytes : 2;
  if (file.size() % tokenBytes != 0)
    return dataLoss(fmt::format("'{}' has {} bytes, which is not a whole number of {}-bit tokens, and no known header",
                                file.path(), file.size(), 8 * tokenBytes));
  const uint64_t tokens = file.size() / tokenBytes;
  return StreamPlace{std::move(file), 0, tokens, tokenBytes};
}

static StatusOr<StreamPlace> findBin(const std::string &path, const RowShape &shape) {
  ZTC_ASSIGN_OR_RETURN(MappedFile file, MappedFile::open(path));
  const auto magic = file.size() >= 4 ? loadAt<int32_t>(file, 0) : 0;
  const uint64_t said = magic == 20240520 ? 2 : magic == 20240801 ? 4 : 0;
  if (!said)
    return findBare(std::move(file), shape);
  if (shape.tokenBytes && shape.tokenBytes != said)
    return invalidArgument(fmt::format("--token-bytes={}: '{}' has a header of llm.c, which says that its tokens have "
                                       "{} bytes; leave the option out",
                                       shape.tokenBytes, path, said));
  return findLlmc(std::move(file), magic, said);
}

StatusOr<std::unique_ptr<TokenSource>> openBinSource(const std::string &path, const RowShape &shape) {
  ZTC_ASSIGN_OR_RETURN(StreamPlace place, findBin(path, shape));
  return makeRows(std::move(place), shape);
}

StatusOr<std::unique_ptr<DocumentSource>> openBinDocuments(const std::string &path, const RowShape &shape,
                                                           std::optional<uint64_t> documentEnd) {
  ZTC_ASSIGN_OR_RETURN(StreamPlace place, findBin(path, shape));
  return cutDocuments(std::move(place), shape, documentEnd);
}

static StatusOr<StreamPlace> findText(const std::string &path, const RowShape &shape) {
  if (shape.vocabulary < 256)
    return invalidArgument(
        fmt::format("the bytes tokenizer needs a vocabulary of at least 256, the model has {}", shape.vocabulary));
  ZTC_ASSIGN_OR_RETURN(MappedFile file, MappedFile::open(path));
  const uint64_t tokens = file.size();
  return StreamPlace{std::move(file), 0, tokens, 1};
}

StatusOr<std::unique_ptr<TokenSource>> openTextSource(const std::string &path, const RowShape &shape) {
  ZTC_ASSIGN_OR_RETURN(StreamPlace place, findText(path, shape));
  return makeRows(std::move(place), shape);
}

StatusOr<std::unique_ptr<DocumentSource>> openTextDocuments(const std::string &path, const RowShape &shape,
                                                            std::optional<uint64_t> documentEnd) {
  ZTC_ASSIGN_OR_RETURN(StreamPlace place, findText(path, shape));
  return cutDocuments(std::move(place), shape, documentEnd);
}

/// Layout of an index (Megatron-LM, megatron/core/datasets/indexed_dataset.py): magic (9 bytes), u64 version 1, u8 type
/// code, u64 sequences, u64 documents, i32 lengths[sequences], i64 byte offsets[sequences], i64 document
/// starts[documents], the numbers of their first sequences and, last, that of all sequences. Where `firsts` is given it
/// becomes the documents' first tokens and, last, the number of tokens.
static StatusOr<StreamPlace> findMegatron(const std::string &indexPath, std::vector<uint64_t> *firsts) {
  ZTC_ASSIGN_OR_RETURN(const MappedFile index, MappedFile::open(indexPath));
  constexpr uint64_t kHeaderBytes = 9 + 8 + 1 + 8 + 8;
  static constexpr std::string_view kMagic("MMIDIDX\0\0", 9);
  if (index.size() < kMagic.size() || std::memcmp(index.bytes().data(), kMagic.data(), kMagic.size()) != 0)
    return invalidArgument(fmt::format("'{}' is not an index of Megatron", indexPath));
  if (index.size() < kHeaderBytes)
    return dataLoss(fmt::format("'{}' is truncated: {} bytes are less than its header of {}", indexPath, index.size(),
                                kHeaderBytes));
  const auto version = loadAt<uint64_t>(index, 9);
  if (version != 1)
    return invalidArgument(fmt::format("the index '{}' has version {}, 1 is known", indexPath, version));
  const auto code = loadAt<uint8_t>(index, 17);
  const uint64_t tokenBytes = code == 1 || code == 2   ? 1
                              : code == 3 || code == 8 ? 2
                              : code == 4              ? 4
                              : code == 5              ? 8
                                                       : 0;
  if (!tokenBytes)
    return invalidArgument(
        fmt::format("the index '{}' has tokens of type {}, which is not an integer type", indexPath, code));
  const auto sequences = loadAt<uint64_t>(index, 18);
  if (sequences > (index.size() - kHeaderBytes) / 12)
    return dataLoss(fmt::format("'{}' is truncated: it promises {} sequences", indexPath, sequences));

  std::string binPath = indexPath.substr(0, indexPath.size() - 4) + ".bin";
  ZTC_ASSIGN_OR_RETURN(MappedFile file, MappedFile::open(binPath));
  uint64_t tokens = 0;
  const auto documents = loadAt<uint64_t>(index, 26);
  const uint64_t documentsAt = kHeaderBytes + 12 * sequences;
  if (firsts && (documents < 1 || documents > (index.size() - documentsAt) / 8))
    return dataLoss(fmt::format("'{}' is truncated: it promises {} documents", indexPath, documents));
  uint64_t document = 0;
  const auto firstSequence = [&] { return loadAt<int64_t>(index, documentsAt + 8 * document); };
  for (uint64_t s = 0; s < sequences; ++s) {
    for (; firsts && document < documents && firstSequence() == static_cast<int64_t>(s); ++document)
      firsts->push_back(tokens);
    const auto length = loadAt<int32_t>(index, kHeaderBytes + 4 * s);
    const auto offset = loadAt<int64_t>(index, kHeaderBytes + 4 * sequences + 8 * s);
    // The writer puts the sequences one after the other: that is what makes them one stream.
    if (length < 0 || offset < 0 || static_cast<uint64_t>(offset) != tokens * tokenBytes)
      return dataLoss(fmt::format(
          "the index '{}' is corrupted: sequence {} does not begin where the one before it ends", indexPath, s));
    tokens += static_cast<uint64_t>(length);
  }
  if (tokens * tokenBytes > file.size())
    return dataLoss(fmt::format("'{}' is truncated: its index promises {} tokens, {} are there", binPath, tokens,
                                file.size() / tokenBytes));
  for (; firsts && document < documents && firstSequence() == static_cast<int64_t>(sequences); ++document)
    firsts->push_back(tokens);
  if (firsts && (document != documents || firsts->front() != 0 || firsts->back() != tokens))
    return dataLoss(fmt::format("the index '{}' is corrupted: its documents do not follow one another from the first "
                                "sequence to the last",
                                indexPath));
  return StreamPlace{std::move(file), 0, tokens, tokenBytes, code >= 2 && code <= 5};
}

StatusOr<std::unique_ptr<TokenSource>> openMegatronSource(const std::string &indexPath, const RowShape &shape) {
  ZTC_ASSIGN_OR_RETURN(StreamPlace place, findMegatron(indexPath, nullptr));
  return makeRows(std::move(place), shape);
}

StatusOr<std::unique_ptr<DocumentSource>> openMegatronDocuments(const std::string &indexPath, const RowShape &shape) {
  std::vector<uint64_t> firsts;
  ZTC_ASSIGN_OR_RETURN(StreamPlace place, findMegatron(indexPath, &firsts));
  return makeDocuments(std::move(place), shape, std::move(firsts));
}

} // namespace ztc
