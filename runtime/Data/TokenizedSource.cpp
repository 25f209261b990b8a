#include "runtime/Core/File.h"
#include "runtime/Data/Sources.h"
#include <cstring>
#include <fmt/format.h>

namespace ztc {
namespace {

class TokenizedSource final : public TokenSource {
public:
  TokenizedSource(MappedFile file, RowReader reader, uint64_t tokens, uint64_t seq)
      : file_(std::move(file)), reader_(std::move(reader)), seq_(seq), rows_(tokens ? (tokens - 1) / seq : 0) {}

  uint64_t rows() const override { return rows_; }
  std::span<const std::byte> bytes() const override { return file_.bytes(); }

  Status readRow(uint64_t row, int32_t *tokens, int32_t *targets) const override {
    ZTC_ASSIGN_OR_RETURN(const std::byte *bytes, read(row));
    for (uint64_t t = 0; t <= seq_; ++t) {
      const uint32_t raw = tokenAt(bytes, t);
      const auto token = static_cast<int32_t>(raw & ~kUncountedToken);
      if (t < seq_)
        tokens[t] = token;
      if (t > 0)
        targets[t - 1] = raw & kUncountedToken ? kIgnoredTarget : token;
    }
    return Status::ok();
  }

  StatusOr<uint64_t> countTargets(uint64_t row) const override {
    ZTC_ASSIGN_OR_RETURN(const std::byte *bytes, read(row));
    uint64_t counted = 0;
    for (uint64_t t = 1; t <= seq_; ++t)
      counted += !(tokenAt(bytes, t) & kUncountedToken);
    return counted;
  }

private:
  StatusOr<const std::byte *> read(uint64_t row) const {
    return reader_.read(sizeof(TokenFileHeader) + row * seq_ * sizeof(uint32_t), (seq_ + 1) * sizeof(uint32_t));
  }
  static uint32_t tokenAt(const std::byte *bytes, uint64_t t) {
    uint32_t token = 0;
    std::memcpy(&token, bytes + t * sizeof token, sizeof token);
    return token;
  }
  MappedFile file_;
  RowReader reader_;
  uint64_t seq_;
  uint64_t rows_;
};

} // namespace

StatusOr<std::unique_ptr<TokenSource>> openTokenizedSource(const std::string &path, const RowShape &shape,
                                                           const TextOptions &text) {
  ZTC_ASSIGN_OR_RETURN(const TokenFile made, tokenizeFile(path, text));
  auto mapped = MappedFile::open(made.path);
  if (!mapped.isOk())
    return mapped.status();
  auto reader = RowReader::open(*mapped);
  if (made.isTemporary)
    (void)removeAll(made.path).isOk(); // its content stays as long as it is open
  if (!reader.isOk())
    return reader.status();
  TokenFileHeader header;
  const auto damaged = [&] {
    return dataLoss(
        fmt::format("'{}', which was made of '{}', is damaged: remove it, it will be made again", made.path, path));
  };
  if (mapped->size() < sizeof header)
    return damaged();
  std::memcpy(&header, mapped->bytes().data(), sizeof header);
  if (std::memcmp(header.magic, TokenFileHeader().magic, sizeof header.magic) != 0 ||
      header.tokens != (mapped->size() - sizeof header) / sizeof(uint32_t))
    return damaged();
  if (header.tokens > 0 && header.largest >= shape.vocabulary)
    return invalidArgument(
        fmt::format("'{}' becomes the token {} ({}), which lies beyond the model's vocabulary of {} (0 to {}): the "
                    "tokenizer in '{}' and the model do not belong together, or the model's embedding was not made "
                    "larger for it",
                    path, header.largest, text.tokenizer->describe(static_cast<int32_t>(header.largest)),
                    shape.vocabulary, shape.vocabulary - 1, text.tokenizer->folder));
  return std::unique_ptr<TokenSource>(
      std::make_unique<TokenizedSource>(std::move(*mapped), std::move(*reader), header.tokens, shape.seq));
}

} // namespace ztc
