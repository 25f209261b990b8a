// Rows of tokens and targets from files, in an order that depends on nothing but seed, epoch and row.
#pragma once
#include "runtime/Core/Packing.h"
#include "runtime/Core/Status.h"
#include "runtime/Text/TokenFile.h"
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ztc {

/// Where a run stands in its data. Rows count from 0 within an epoch.
struct DataCursor {
  uint64_t epoch = 0;
  uint64_t rows = 0; ///< consumed in this epoch
  bool operator==(const DataCursor &) const = default;
};

/// A target that counts for nothing.
inline constexpr int32_t kIgnoredTarget = -1;
/// Weights of targets are numbers from 0 to this one.
inline constexpr float kLargestLossWeight = 1 << 24;

struct DataOptions {
  std::vector<std::string> files;
  bool bytesTokenizer = false; ///< the files are text, a token is a byte
  uint64_t tokenBytes = 0;     ///< of files that do not say it (headerless .bin): 2 or 4; 0: 2, where that can be right
  bool shuffle = false;        ///< else file order in every epoch
  uint64_t seed = 0;
  uint64_t seq = 0;        ///< S of the plan
  uint64_t vocabulary = 0; ///< of the plan
  TextOptions text = {};   ///< of files that are text
  bool pack = false;       ///< rows hold several documents each
  bool dropLong = false;   ///< of packed rows: documents longer than a row are dropped, not cut
  /// Of packed rows: the token that ends a document where the file does not say where documents end.
  std::optional<uint64_t> documentEnd = {};
};

/// Rows of one file, or of several whose documents share rows. Thread-safe; reading allocates nothing unless it fails.
class TokenSource {
public:
  virtual ~TokenSource() = default;
  virtual uint64_t rows() const = 0;
  /// Tokens and targets (S) of a row; targets that do not count are kIgnoredTarget.
  /// InvalidArgument with file and byte offset on a token outside the vocabulary.
  virtual Status readRow(uint64_t row, int32_t *tokens, int32_t *targets) const = 0;
  /// The same of a row of several documents, and for each position where in the row its document starts; `starts` (S)
  /// comes filled with zeros, which stand for one document.
  virtual Status readDocuments(uint64_t row, int32_t *tokens, int32_t *targets, int32_t *) const {
    return readRow(row, tokens, targets);
  }
  /// Whether the file has weights of its targets.
  virtual bool hasWeights() const { return false; }
  /// The weights (S) of a row's targets, all 1 where the file has none. InvalidArgument with file and byte offset on
  /// one that is not a number from 0 to kLargestLossWeight.
  virtual Status readWeights(uint64_t, float *weights, uint64_t seq) const {
    std::fill_n(weights, seq, 1.0f);
    return Status::ok();
  }
  /// Targets of a row that count: their weight, where there are weights, is not 0.
  virtual StatusOr<uint64_t> countTargets(uint64_t row) const = 0;
  /// All of each file.
  virtual std::vector<std::span<const std::byte>> files() const = 0;
};

/// All files of --data or --eval-data, one after the other.
///
/// A *global row* counts from 0 over all epochs: epoch = row / rows(), place in the epoch's order = row % rows().
/// Step t, micro-step m, rank r, batch row b of a run with W ranks, M micro-steps and micro-batch B reads global row
/// first + (((t*M + m)*W + r)*B + b), where `first` is 0 or, after a resume, position(cursor) less what t stands for.
class DataSet {
public:
  /// Opens and checks all files. The format follows the name: .safetensors (input_ids, labels, loss_weights), .bin
  /// (llm.c by its magic, Megatron where an .idx stands beside it, else nanoGPT's headerless uint16), .idx (Megatron);
  /// else text: bytes with bytesTokenizer, tokens with a tokenizer.
  static StatusOr<std::unique_ptr<DataSet>> open(const DataOptions &options);

  uint64_t rows() const { return rows_; }
  /// InvalidArgument where one global batch of `rowsPerStep` rows needs more rows than there are.
  Status checkGlobalBatch(uint64_t rowsPerStep) const;

  /// Tokens and targets (S each) of a global row, and where each position's document starts. Allocates nothing unless
  /// it fails.
  Status fillRow(uint64_t globalRow, int32_t *tokens, int32_t *targets) const;
  Status fillRow(uint64_t globalRow, int32_t *tokens, int32_t *targets, int32_t *starts) const;
  /// Weights (S) of a global row's targets, see TokenSource::readWeights.
  Status fillWeights(uint64_t globalRow, float *weights) const;
  /// A file with weights of its targets; nothing where there is none.
  std::optional<std::string> fileWithWeights() const;
  /// What became of the documents; nothing where rows are not packed.
  const std::optional<PackingSummary> &packing() const { return packing_; }
  /// What no row of these documents goes beyond; a row that is not packed is one document.
  DocumentBounds documentBounds() const { return bounds_; }
  /// Targets that count in global rows [first, first + count): N of a global batch.
  StatusOr<uint64_t> countTargets(uint64_t first, uint64_t count) const;

  /// Tells other data apart: a checksum of the files' sizes and of samples from all over them (64 pieces of 1 KiB
  /// each). The same for the same files under other names.
  const std::string &fingerprint() const { return fingerprint_; }
  /// Reads all rows of the files that have at most `mostBytes` bytes: a token that the model does not know is better
  /// found before the run than in its middle. The first row's error.
  Status checkRows(uint64_t mostBytes) const;
  /// Whether any row has a target that counts; reads rows until it finds one.
  StatusOr<bool> hasCountedTarget() const;

  DataCursor cursor(uint64_t globalRow) const { return {globalRow / rows_, globalRow % rows_}; }
  uint64_t position(const DataCursor &cursor) const { return cursor.epoch * rows_ + cursor.rows; }

private:
  struct Place {
    const TokenSource *source;
    uint64_t row;
  };
  DataSet() = default;
  Place place(uint64_t globalRow) const;
  DataOptions options_;
  std::vector<std::unique_ptr<TokenSource>> sources_;
  std::vector<uint64_t> firstRow_; ///< of each source
  uint64_t rows_ = 0;
  std::optional<PackingSummary> packing_;
  DocumentBounds bounds_;
  std::string fingerprint_; ///< of the files as they were opened
  std::string hashFiles() const;
};

} // namespace ztc
