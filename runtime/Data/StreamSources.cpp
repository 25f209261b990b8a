#include "runtime/Core/File.h"
#include "runtime/Data/Sources.h"
#include <algorithm>
#include <cstring>
#include <fmt/format.h>

namespace ztc {
namespace {

/// A run of tokens of one integer type inside a mapped file.
template <typename Token> class StreamSource : public TokenSource {
public:
  StreamSource(MappedFile file, RowReader reader, uint64_t begin, uint64_t tokens, const RowShape &shape)
      : file_(std::move(file)), reader_(std::move(reader)), begin_(begin), shape_(shape),
        rows_(tokens ? (tokens - 1) / shape.seq : 0) {}

  uint64_t rows() const override { return rows_; }
  std::span<const std::byte> bytes() const override { return file_.bytes(); }

  Status readRow(uint64_t row, int32_t *tokens, int32_t *targets) const override {
    const uint64_t first = row * shape_.seq;
    ZTC_ASSIGN_OR_RETURN(const std::byte *bytes,
                         reader_.read(begin_ + first * sizeof(Token), (shape_.seq + 1) * sizeof(Token)));
    for (uint64_t t = 0; t <= shape_.seq; ++t) {
      const uint64_t offset = begin_ + (first + t) * sizeof(Token);
      Token raw;
      std::memcpy(&raw, bytes + t * sizeof(Token), sizeof(Token));
      const int64_t token = raw; // NOLINT(bugprone-signed-char-misuse): no type of tokens is a character
      if (token < 0 || static_cast<uint64_t>(token) >= shape_.vocabulary)
        return invalidArgument(
            fmt::format("'{}' holds the token {} at byte {} (token {} of the file), the model's vocabulary ends at {}",
                        file_.path(), token, offset, first + t, shape_.vocabulary - 1));
      if (t < shape_.seq)
        tokens[t] = static_cast<int32_t>(token);
      if (t > 0)
        targets[t - 1] = static_cast<int32_t>(token);
    }
    return Status::ok();
  }

  StatusOr<uint64_t> countTargets(uint64_t) const override { return shape_.seq; }

private:
  MappedFile file_;
  RowReader reader_;
  uint64_t begin_; ///< byte of the first token
  RowShape shape_;
  uint64_t rows_;
};

} // namespace

template <typename Token>
static StatusOr<std::unique_ptr<TokenSource>> makeStream(MappedFile file, uint64_t begin, uint64_t tokens,
                                                         const RowShape &shape) {
  ZTC_ASSIGN_OR_RETURN(RowReader reader, RowReader::open(file));
  return std::unique_ptr<TokenSource>(
      std::make_unique<StreamSource<Token>>(std::move(file), std::move(reader), begin, tokens, shape));
}

template <typename T> static T loadAt(const MappedFile &file, uint64_t offset) {
  T value;
  std::memcpy(&value, file.bytes().data() + offset, sizeof(T));
  return value;
}

/// llm.c's header: 256 numbers of which the first three are magic, version and the count of tokens.
static StatusOr<std::unique_ptr<TokenSource>> openLlmc(MappedFile file, int32_t magic, uint64_t tokenBytes,
                                                       const RowShape &shape) {
  constexpr uint64_t kHeaderBytes = 1024; // 256 words
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
  if (tokenBytes == 2)
    return makeStream<uint16_t>(std::move(file), kHeaderBytes, static_cast<uint64_t>(tokens), shape);
  return makeStream<uint32_t>(std::move(file), kHeaderBytes, static_cast<uint64_t>(tokens), shape);
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
static StatusOr<std::unique_ptr<TokenSource>> openBare(MappedFile file, const RowShape &shape) {
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
  return tokenBytes == 4 ? makeStream<uint32_t>(std::move(file), 0, tokens, shape)
                         : makeStream<uint16_t>(std::move(file), 0, tokens, shape);
}

StatusOr<std::unique_ptr<TokenSource>> openBinSource(const std::string &path, const RowShape &shape) {
  ZTC_ASSIGN_OR_RETURN(MappedFile file, MappedFile::open(path));
  const auto magic = file.size() >= 4 ? loadAt<int32_t>(file, 0) : 0;
  const uint64_t said = magic == 20240520 ? 2 : magic == 20240801 ? 4 : 0;
  if (!said)
    return openBare(std::move(file), shape);
  if (shape.tokenBytes && shape.tokenBytes != said)
    return invalidArgument(fmt::format("--token-bytes={}: '{}' has a header of llm.c, which says that its tokens have "
                                       "{} bytes; leave the option out",
                                       shape.tokenBytes, path, said));
  return openLlmc(std::move(file), magic, said, shape);
}

StatusOr<std::unique_ptr<TokenSource>> openTextSource(const std::string &path, const RowShape &shape) {
  if (shape.vocabulary < 256)
    return invalidArgument(
        fmt::format("the bytes tokenizer needs a vocabulary of at least 256, the model has {}", shape.vocabulary));
  ZTC_ASSIGN_OR_RETURN(MappedFile file, MappedFile::open(path));
  const uint64_t tokens = file.size();
  return makeStream<uint8_t>(std::move(file), 0, tokens, shape);
}

/// Layout of an index (Megatron-LM, megatron/core/datasets/indexed_dataset.py): magic (9 bytes), u64 version 1, u8 type
/// code, u64 sequences, u64 documents, i32 lengths[sequences], i64 byte offsets[sequences], i64 document
/// starts[documents].
StatusOr<std::unique_ptr<TokenSource>> openMegatronSource(const std::string &indexPath, const RowShape &shape) {
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
    return invalidArgument(fmt::format("the index '{}' has tokens of type {}, which are no integers", indexPath, code));
  const auto sequences = loadAt<uint64_t>(index, 18);
  if (sequences > (index.size() - kHeaderBytes) / 12)
    return dataLoss(fmt::format("'{}' is truncated: it promises {} sequences", indexPath, sequences));

  std::string binPath = indexPath.substr(0, indexPath.size() - 4) + ".bin";
  ZTC_ASSIGN_OR_RETURN(MappedFile file, MappedFile::open(binPath));
  uint64_t tokens = 0;
  for (uint64_t s = 0; s < sequences; ++s) {
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
  switch (code) {
  case 1:
    return makeStream<uint8_t>(std::move(file), 0, tokens, shape);
  case 2:
    return makeStream<int8_t>(std::move(file), 0, tokens, shape);
  case 3:
    return makeStream<int16_t>(std::move(file), 0, tokens, shape);
  case 4:
    return makeStream<int32_t>(std::move(file), 0, tokens, shape);
  case 5:
    return makeStream<int64_t>(std::move(file), 0, tokens, shape);
  default:
    return makeStream<uint16_t>(std::move(file), 0, tokens, shape);
  }
}

} // namespace ztc
