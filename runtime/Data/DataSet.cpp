#include "runtime/Data/DataSet.h"
#include "runtime/Core/File.h"
#include "runtime/Core/Random.h"
#include "runtime/Core/Sha256.h"
#include "runtime/Data/DocumentSource.h"
#include "runtime/Data/Sources.h"
#include <algorithm>
#include <fmt/format.h>
#include <limits>

namespace ztc {

/// What a name without a known ending of token files may stand for.
static Status unknownFile(const std::string &path) {
  for (const char *ending : {".jsonl", ".json", ".parquet", ".arrow", ".csv"})
    if (path.ends_with(ending))
      return invalidArgument(fmt::format(
          "'{}' holds texts or chats, not tokens: samples/data/prepare_chat.py makes a token file of {}", path,
          path.ends_with(".jsonl") || path.ends_with(".json") ? "it, with the model's tokenizer and chat template"
                                                              : "such rows once they are written as .jsonl"));
  return invalidArgument(fmt::format("'{}' is not a token file by its name (.safetensors, .bin, .idx); for text add "
                                     "--tokenizer=FOLDER, with a tokenizer.json, or "
                                     "--tokenizer=bytes",
                                     path));
}

/// The index of Megatron that says what is in this file; "" for none.
static std::string megatronIndex(const std::string &path) {
  if (path.ends_with(".idx"))
    return path;
  const std::string index = path.ends_with(".bin") ? path.substr(0, path.size() - 4) + ".idx" : "";
  return !index.empty() && pathExists(index) ? index : "";
}

static StatusOr<std::unique_ptr<TokenSource>> openSource(const std::string &path, const DataOptions &options) {
  const RowShape shape{options.seq, options.vocabulary, options.tokenBytes};
  if (path.ends_with(".safetensors")) {
    if (options.bytesTokenizer)
      return invalidArgument(fmt::format("'{}' holds tokens already; leave --tokenizer=bytes away", path));
    return openSafetensorsSource(path, shape);
  }
  if (options.bytesTokenizer)
    return openTextSource(path, shape);
  if (const std::string index = megatronIndex(path); !index.empty())
    return openMegatronSource(index, shape);
  if (path.ends_with(".bin"))
    return openBinSource(path, shape);
  if (!pathExists(path))
    return notFound(fmt::format("cannot open '{}': no such file", path));
  if (options.text.tokenizer)
    return openTokenizedSource(path, shape, options.text);
  return unknownFile(path);
}

StatusOr<std::unique_ptr<DocumentSource>> openDocuments(const std::string &path, const DataOptions &options) {
  const RowShape shape{options.seq, options.vocabulary, options.tokenBytes};
  if (path.ends_with(".safetensors")) {
    if (options.bytesTokenizer)
      return invalidArgument(fmt::format("'{}' holds tokens already; leave --tokenizer=bytes away", path));
    return openSafetensorsDocuments(path, shape);
  }
  if (options.bytesTokenizer)
    return openTextDocuments(path, shape, options.documentEnd);
  if (const std::string index = megatronIndex(path); !index.empty())
    return openMegatronDocuments(index, shape);
  if (path.ends_with(".bin"))
    return openBinDocuments(path, shape, options.documentEnd);
  if (!pathExists(path))
    return notFound(fmt::format("cannot open '{}': no such file", path));
  if (options.text.tokenizer)
    return openTokenizedDocuments(path, shape, options.text);
  return unknownFile(path);
}

static StatusOr<std::unique_ptr<PackedSource>> packFiles(const DataOptions &options) {
  std::vector<std::unique_ptr<DocumentSource>> files;
  for (const std::string &path : options.files) {
    ZTC_ASSIGN_OR_RETURN(std::unique_ptr<DocumentSource> file, openDocuments(path, options));
    files.push_back(std::move(file));
  }
  return std::make_unique<PackedSource>(std::move(files), options);
}

StatusOr<std::unique_ptr<DataSet>> DataSet::open(const DataOptions &options) {
  if (options.files.empty())
    return invalidArgument("no data files");
  constexpr auto kLargestToken = static_cast<uint64_t>(std::numeric_limits<int32_t>::max());
  if (options.seq == 0 || options.vocabulary == 0 || options.vocabulary > kLargestToken)
    return internalError(
        fmt::format("data for rows of {} tokens and a vocabulary of {}", options.seq, options.vocabulary));
  std::unique_ptr<DataSet> data(new DataSet());
  data->options_ = options;
  if (options.pack) {
    ZTC_ASSIGN_OR_RETURN(std::unique_ptr<PackedSource> packed, packFiles(options));
    data->packing_ = packed->summary();
    data->bounds_ = packed->documentBounds();
    data->firstRow_.push_back(0);
    data->rows_ = packed->rows();
    data->sources_.push_back(std::move(packed));
    if (data->rows_ == 0)
      return invalidArgument(
          fmt::format("the data in '{}' is empty: of {} documents {} are longer than {} tokens and dropped "
                      "(--long=drop), the others have fewer than two or no target that counts",
                      options.files[0], data->packing_->documents, data->packing_->dropped, options.seq));
  }
  for (const std::string &path : options.pack ? std::vector<std::string>() : options.files) {
    ZTC_ASSIGN_OR_RETURN(std::unique_ptr<TokenSource> source, openSource(path, options));
    if (source->rows() == 0 && options.files.size() > 1)
      return invalidArgument(
          fmt::format("'{}' holds not one row: a row needs {} tokens and the one after them", path, options.seq));
    data->firstRow_.push_back(data->rows_);
    data->rows_ += source->rows();
    data->sources_.push_back(std::move(source));
  }
  if (data->rows_ == 0)
    return invalidArgument(
        fmt::format("the data in '{}' is empty: there is not one row of {} tokens", options.files[0], options.seq));
  data->fingerprint_ = data->hashFiles();
  return data;
}

Status DataSet::checkGlobalBatch(uint64_t rowsPerStep) const {
  if (rows_ < rowsPerStep)
    return invalidArgument(
        fmt::format("the data has {} rows of {} tokens, one global batch (ranks x micro-steps x --batch) needs {}",
                    rows_, options_.seq, rowsPerStep));
  return Status::ok();
}

DataSet::Place DataSet::place(uint64_t globalRow) const {
  const uint64_t epoch = globalRow / rows_;
  uint64_t row = globalRow % rows_;
  if (options_.shuffle)
    row = permuteIndex(row, rows_, options_.seed, epoch);
  const size_t source =
      static_cast<size_t>(std::upper_bound(firstRow_.begin(), firstRow_.end(), row) - firstRow_.begin()) - 1;
  return {sources_[source].get(), row - firstRow_[source]};
}

Status DataSet::fillRow(uint64_t globalRow, int32_t *tokens, int32_t *targets) const {
  const Place at = place(globalRow);
  return at.source->readRow(at.row, tokens, targets);
}

Status DataSet::fillRow(uint64_t globalRow, int32_t *tokens, int32_t *targets, int32_t *starts) const {
  const Place at = place(globalRow);
  std::fill_n(starts, options_.seq, 0);
  return at.source->readDocuments(at.row, tokens, targets, starts);
}

Status DataSet::fillWeights(uint64_t globalRow, float *weights) const {
  const Place at = place(globalRow);
  return at.source->readWeights(at.row, weights, options_.seq);
}

std::optional<std::string> DataSet::fileWithWeights() const {
  for (size_t i = 0; i < sources_.size(); ++i)
    if (sources_[i]->hasWeights())
      return options_.files[sources_.size() == options_.files.size() ? i : 0];
  return std::nullopt;
}

std::string DataSet::hashFiles() const {
  constexpr uint64_t kPieces = 64, kPieceBytes = 1024;
  Sha256 hash;
  for (const std::unique_ptr<TokenSource> &source : sources_)
    for (const std::span<const std::byte> bytes : source->files()) {
      const uint64_t numbers[] = {bytes.size(), source->rows()};
      hash.update(numbers, sizeof numbers);
      const uint64_t piece = std::min<uint64_t>(kPieceBytes, bytes.size()),
                     stride = (bytes.size() - piece) / (kPieces - 1);
      for (uint64_t i = 0; i < kPieces; ++i) // the first piece is the file's head; the last one ends near its end
        hash.update(bytes.data() + (i + 1 < kPieces ? i * stride : bytes.size() - piece), piece);
    }
  if (packing_) { // other rows than those of the same files without packing
    const uint64_t numbers[] = {packing_->documents, packing_->places, packing_->cut, packing_->dropped};
    hash.update(numbers, sizeof numbers);
  }
  return Sha256::hex(hash.finish());
}

Status DataSet::checkRows(uint64_t mostBytes) const {
  std::vector<int32_t> tokens(options_.seq), targets(options_.seq);
  std::vector<float> weights(options_.seq);
  for (const std::unique_ptr<TokenSource> &source : sources_) {
    uint64_t bytes = 0;
    for (const std::span<const std::byte> file : source->files())
      bytes += file.size();
    for (uint64_t row = 0; row < source->rows() && bytes <= mostBytes; ++row) {
      ZTC_RETURN_IF_ERROR(source->readRow(row, tokens.data(), targets.data()));
      if (source->hasWeights())
        ZTC_RETURN_IF_ERROR(source->readWeights(row, weights.data(), options_.seq));
    }
  }
  return Status::ok();
}

StatusOr<bool> DataSet::hasCountedTarget() const {
  for (const std::unique_ptr<TokenSource> &source : sources_)
    for (uint64_t row = 0; row < source->rows(); ++row) {
      ZTC_ASSIGN_OR_RETURN(const uint64_t counted, source->countTargets(row));
      if (counted)
        return true;
    }
  return false;
}

StatusOr<uint64_t> DataSet::countTargets(uint64_t first, uint64_t count) const {
  uint64_t targets = 0;
  for (uint64_t row = first; row < first + count; ++row) {
    const Place at = place(row);
    ZTC_ASSIGN_OR_RETURN(const uint64_t counted, at.source->countTargets(at.row));
    targets += counted;
  }
  return targets;
}

} // namespace ztc
