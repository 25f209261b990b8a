#include "runtime/Data/DocumentSource.h"
#include <algorithm>

namespace ztc {

PackedSource::PackedSource(std::vector<std::unique_ptr<DocumentSource>> files, const DataOptions &options)
    : files_(std::move(files)), seq_(options.seq) {
  std::vector<uint64_t> places;
  for (const std::unique_ptr<DocumentSource> &file : files_) {
    firstDocuments_.push_back(places.size());
    places.insert(places.end(), file->places().begin(), file->places().end());
  }
  packed_ = packDocuments(places, seq_, options.dropLong, options.seed);
}

std::vector<std::span<const std::byte>> PackedSource::files() const {
  std::vector<std::span<const std::byte>> all;
  for (const std::unique_ptr<DocumentSource> &file : files_)
    all.push_back(file->bytes());
  return all;
}

size_t PackedSource::fileOf(uint64_t document) const {
  return size_t(std::ranges::upper_bound(firstDocuments_, document) - firstDocuments_.begin()) - 1;
}

bool PackedSource::hasWeights() const {
  return std::ranges::any_of(files_, [](const auto &file) { return file->hasWeights(); });
}

Status PackedSource::readWeights(uint64_t row, float *weights, uint64_t seq) const {
  uint64_t at = 0;
  for (const DocumentPiece &piece : packed_.row(row)) {
    const size_t file = fileOf(piece.document);
    ZTC_RETURN_IF_ERROR(
        files_[file]->readWeights(piece.document - firstDocuments_[file], piece.first, piece.places, weights + at));
    at += piece.places;
  }
  std::fill(weights + at, weights + seq, 1.0f); // of no target
  return Status::ok();
}

Status PackedSource::readDocuments(uint64_t row, int32_t *tokens, int32_t *targets, int32_t *starts) const {
  uint64_t at = 0;
  for (const DocumentPiece &piece : packed_.row(row)) {
    const size_t file = fileOf(piece.document);
    ZTC_RETURN_IF_ERROR(files_[file]->read(piece.document - firstDocuments_[file], piece.first, piece.places,
                                           tokens + at, targets + at));
    std::fill_n(starts + at, piece.places, int32_t(at));
    at += piece.places;
  }
  std::fill(tokens + at, tokens + seq_, 0);
  std::fill(targets + at, targets + seq_, kIgnoredTarget);
  std::fill(starts + at, starts + seq_, int32_t(at));
  return Status::ok();
}

Status PackedSource::readRow(uint64_t row, int32_t *tokens, int32_t *targets) const {
  thread_local std::vector<int32_t> starts; // nobody asked for them
  starts.resize(std::max(starts.size(), size_t(seq_)));
  return readDocuments(row, tokens, targets, starts.data());
}

StatusOr<uint64_t> PackedSource::countTargets(uint64_t row) const {
  thread_local std::vector<int32_t> tokens, targets;
  tokens.resize(std::max(tokens.size(), size_t(seq_)));
  targets.resize(std::max(targets.size(), size_t(seq_)));
  ZTC_RETURN_IF_ERROR(readRow(row, tokens.data(), targets.data()));
  thread_local std::vector<float> weights;
  weights.resize(std::max(weights.size(), size_t(seq_)));
  ZTC_RETURN_IF_ERROR(readWeights(row, weights.data(), seq_));
  uint64_t count = 0;
  for (uint64_t t = 0; t < seq_; ++t)
    count += targets[t] >= 0 && weights[t] != 0;
  return count;
}

} // namespace ztc
