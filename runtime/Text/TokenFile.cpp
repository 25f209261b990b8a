#include "runtime/Text/TokenFile.h"
#include "runtime/Core/File.h"
#include "runtime/Text/Documents.h"
#include <algorithm>
#include <atomic>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <thread>
#include <unistd.h>

namespace ztc {

namespace {

/// Text that is tokenized at once, for each thread.
constexpr size_t kBatchBytes = size_t(2) << 20;
/// Part of what a token file's name stands for: another way to make tokens of texts gets another number.
constexpr int kVersion = 2;

struct Encoded {
  TextPart part;
  std::vector<int32_t> tokens;
  size_t firstCounted = 0;
  Status status;
};

/// Turns parts into tokens, many at a time, and writes them in order.
class TokenWriter {
public:
  TokenWriter(const TextOptions &options, const File &file)
      : options_(options), around_(options.tokenizer->tokenizer.surroundings()), file_(file),
        caches_(std::max(1u, options.threads)) {}

  /// Gives back what was tokenized.
  Status write(std::vector<Encoded> &batch, const std::string &path) {
    std::atomic<size_t> next = 0;
    const auto work = [&](WordCache &cache) {
      for (size_t i = next++; i < batch.size(); i = next++)
        batch[i].status = encode(batch[i], cache);
    };
    {
      std::vector<std::jthread> others; // they are waited for at the end, also where one more cannot be started
      for (size_t i = 1; i < caches_.size() && i < batch.size(); ++i)
        others.emplace_back([&, i] { work(caches_[i]); });
      work(caches_[0]);
    }
    out_.clear();
    for (const Encoded &one : batch) {
      if (!one.status.isOk())
        return one.status.withContext(fmt::format("'{}' {}", path, one.part.place));
      append(one);
    }
    batch.clear();
    ZTC_RETURN_IF_ERROR(file_.writeAt(sizeof(TokenFileHeader) + header_.tokens * sizeof(uint32_t), out_.data(),
                                      out_.size() * sizeof(uint32_t)));
    header_.tokens += out_.size();
    return Status::ok();
  }

  Status finish() const { return file_.writeAt(0, &header_, sizeof header_); }

private:
  Status encode(Encoded &one, WordCache &cache) const {
    const Tokenizer &tokenizer = options_.tokenizer->tokenizer;
    ZTC_RETURN_IF_ERROR(tokenizer.encode(one.part.text, false, one.tokens, cache));
    if (one.part.prompt == 0)
      return Status::ok();
    // A token that holds the end of the prompt and the beginning of the answer counts.
    std::vector<int32_t> prompt;
    ZTC_RETURN_IF_ERROR(
        tokenizer.encode(std::string_view(one.part.text).substr(0, one.part.prompt), false, prompt, cache));
    const auto parts = std::ranges::mismatch(prompt, one.tokens);
    one.firstCounted = static_cast<size_t>(parts.in2 - one.tokens.begin());
    return Status::ok();
  }

  void append(const Encoded &one) {
    begins_ |= one.part.begins;
    const auto put = [&](int32_t token, bool counts) {
      header_.largest = std::max(header_.largest, static_cast<uint32_t>(token));
      out_.push_back((static_cast<uint32_t>(token) & kTokenId) | (counts ? 0 : kUncountedToken) |
                     (begins_ ? kDocumentBegins : 0));
      begins_ = false;
    };
    const bool hasPrompt = one.part.prompt > 0;
    // A text that brings its own beginning gets no second one.
    const bool isBegun = !around_.before.empty() && !one.tokens.empty() && one.tokens[0] == around_.before[0];
    if (one.part.begins && !isBegun)
      for (const int32_t token : around_.before)
        put(token, !hasPrompt);
    for (size_t i = 0; i < one.tokens.size(); ++i)
      put(one.tokens[i], i >= one.firstCounted);
    if (!one.part.ends)
      return;
    int32_t last = one.tokens.empty() ? kNoToken : one.tokens.back();
    for (const int32_t token : around_.after) {
      put(token, true);
      last = token;
    }
    if (const auto end = options_.tokenizer->endOfText; end && *end != last)
      put(*end, true);
  }

  const TextOptions &options_;
  Tokenizer::Surroundings around_;
  const File &file_;
  std::vector<WordCache> caches_;
  std::vector<uint32_t> out_;
  TokenFileHeader header_;
  bool begins_ = false; ///< the next token is a document's first
};

/// Held by one process of this host.
class FileLock {
public:
  explicit FileLock(const std::string &path) : descriptor_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {}
  FileLock(const FileLock &) = delete;
  FileLock &operator=(const FileLock &) = delete;
  ~FileLock() {
    if (descriptor_ >= 0)
      ::close(descriptor_);
  }
  bool tryLock() { return descriptor_ < 0 || ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0; }

private:
  int descriptor_;
};

Status checkCancelled(const std::string &path, const TextOptions &options) {
  if (!options.cancelled || !options.cancelled())
    return Status::ok();
  return failedPrecondition(fmt::format(
      "stopped by a signal while the tokens of '{}' were made: no step was taken, start the run again", path));
}

/// What processes have left that were killed while they wrote: it may be as large as the data. Who holds the lock is
/// the only one that writes.
void removeUnfinished(const std::string &folder, const std::string &prefix) {
  const StatusOr<std::vector<std::string>> names = listFolder(folder);
  for (const std::string &name : names.isOk() ? *names : std::vector<std::string>())
    if (name.starts_with(prefix))
      (void)removeAll(folder + "/" + name).isOk();
}

Status writeTokens(const std::string &path, const std::string &sha256, const TextOptions &options, const File &file) {
  ZTC_ASSIGN_OR_RETURN(DocumentReader reader, DocumentReader::open(path));
  TokenWriter writer(options, file);
  std::vector<Encoded> batch;
  size_t bytes = 0;
  for (bool more = true; more;) {
    Encoded one;
    ZTC_ASSIGN_OR_RETURN(more, reader.next(one.part));
    if (more) {
      bytes += one.part.text.size();
      batch.push_back(std::move(one));
    }
    if (more && bytes < kBatchBytes * std::max(1u, options.threads))
      continue;
    ZTC_RETURN_IF_ERROR(writer.write(batch, path));
    bytes = 0;
    if (options.progress)
      options.progress(path, reader.done(), reader.size());
    ZTC_RETURN_IF_ERROR(checkCancelled(path, options));
  }
  if (reader.sha256() != sha256)
    return dataLoss(fmt::format("'{}' has changed while it was read", path));
  return writer.finish();
}

bool isWholeTokenFile(const std::string &path) {
  const auto file = MappedFile::open(path);
  return file.isOk() && readTokenFileHeader(file->bytes());
}

} // namespace

std::optional<TokenFileHeader> readTokenFileHeader(std::span<const std::byte> bytes) {
  TokenFileHeader header;
  if (bytes.size() < sizeof header)
    return std::nullopt;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (std::memcmp(header.magic, TokenFileHeader().magic, sizeof header.magic) != 0 ||
      header.tokens != (bytes.size() - sizeof header) / sizeof(uint32_t))
    return std::nullopt;
  return header;
}

StatusOr<TokenFile> tokenizeFile(const std::string &path, const TextOptions &options) {
  ZTC_ASSIGN_OR_RETURN(const std::string sha256, sha256OfFile(path));
  const auto write = [&](const File &file) { return writeTokens(path, sha256, options, file); };
  const bool isJson = path.ends_with(".jsonl") || path.ends_with(".json");
  const std::string key = fmt::format("{} {} {} {} {}", kVersion, options.tokenizer->tokenizer.sha256(),
                                      options.tokenizer->endOfText.value_or(kNoToken), isJson, sha256);
  const std::string name = Sha256::hex(Sha256::of(key.data(), key.size())).substr(0, 32);
  const std::string folder = options.cacheFolder + "/tokens";
  if (!options.cacheFolder.empty() && checkWritable(folder).isOk()) {
    const std::string made = folder + "/" + name + ".tokens";
    FileLock lock(made + ".lock");
    while (!lock.tryLock()) { // another rank is at it
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      if (options.progress)
        options.progress(path, 0, 0);
      ZTC_RETURN_IF_ERROR(checkCancelled(path, options));
    }
    if (isWholeTokenFile(made))
      return TokenFile{made, false};
    removeUnfinished(folder, name + ".tokens.tmp-");
    const Status written = replaceFile(made, write);
    if (written.isOk())
      return TokenFile{made, false};
    if (written.code() != StatusCode::ResourceExhausted)
      return written;
  }
  const std::string temporary = fmt::format("{}/ztc-{}-{}.tokens", options.temporaryFolder, name, ::getpid());
  ZTC_RETURN_IF_ERROR(replaceFile(temporary, write));
  return TokenFile{temporary, true};
}

} // namespace ztc
