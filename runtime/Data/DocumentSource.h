// Documents of files, for rows that hold several.
#pragma once
#include "runtime/Core/Packing.h"
#include "runtime/Core/Status.h"
#include "runtime/Data/DataSet.h"
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace ztc {

/// One file of documents. A document takes a place in a row for each of its tokens but the last, which is a target
/// alone; the first token is none's target. Thread-safe.
class DocumentSource {
public:
  virtual ~DocumentSource() = default;
  /// Places of each document; 0 where there is nothing to learn.
  virtual std::span<const uint64_t> places() const = 0;
  /// Tokens and targets of the places [first, first + count) of a document; see TokenSource::readRow.
  virtual Status read(uint64_t document, uint64_t first, uint64_t count, int32_t *tokens, int32_t *targets) const = 0;
  /// As TokenSource's, of the targets of such places.
  virtual bool hasWeights() const { return false; }
  virtual Status readWeights(uint64_t, uint64_t, uint64_t count, float *weights) const {
    std::fill_n(weights, count, 1.0f);
    return Status::ok();
  }
  /// The whole file.
  virtual std::span<const std::byte> bytes() const = 0;
};

/// Opens a file by its name, as DataSet::open. InvalidArgument, with what to do, where nothing in the file says where
/// documents end.
StatusOr<std::unique_ptr<DocumentSource>> openDocuments(const std::string &path, const DataOptions &options);

/// Rows of several documents of all files, packed at load. Padding is one document more at the end of a row, of zeros
/// without targets.
class PackedSource final : public TokenSource {
public:
  PackedSource(std::vector<std::unique_ptr<DocumentSource>> files, const DataOptions &options);
  const PackingSummary &summary() const { return packed_.summary; }
  DocumentBounds documentBounds() const { return packed_.bounds; }

  uint64_t rows() const override { return packed_.summary.rows; }
  Status readRow(uint64_t row, int32_t *tokens, int32_t *targets) const override;
  Status readDocuments(uint64_t row, int32_t *tokens, int32_t *targets, int32_t *starts) const override;
  bool hasWeights() const override;
  Status readWeights(uint64_t row, float *weights, uint64_t seq) const override;
  StatusOr<uint64_t> countTargets(uint64_t row) const override;
  std::vector<std::span<const std::byte>> files() const override;

private:
  /// The file of a document, which counts over all files.
  size_t fileOf(uint64_t document) const;
  std::vector<std::unique_ptr<DocumentSource>> files_;
  std::vector<uint64_t> firstDocuments_; ///< of each file
  uint64_t seq_;
  PackedRows packed_;
};

} // namespace ztc
