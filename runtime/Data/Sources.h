// The kinds of token files behind DataSet.
#pragma once
#include "runtime/Core/File.h"
#include "runtime/Core/Status.h"
#include "runtime/Data/DataSet.h"
#include "runtime/Data/DocumentSource.h"
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace ztc {

/// What a source needs to know of the plan.
struct RowShape {
  uint64_t seq = 0;        ///< S
  uint64_t vocabulary = 0; ///< tokens are in [0, vocabulary)
  uint64_t tokenBytes = 0; ///< --token-bytes; 0: not given
};

/// input_ids and labels, [N, B, S] or [N, S], i64 or i32; labels at the same positions as their inputs, -100 ignored:
/// target t is label t + 1, the last target never counts. loss_weights, F32 of the labels' shape, are the weights of
/// the labels at the same positions. An attention_mask is only checked: 0 before 1 in a row is
/// left padding, an error.
StatusOr<std::unique_ptr<TokenSource>> openSafetensorsSource(const std::string &path, const RowShape &shape);

/// A stream of tokens: row k has inputs x[kS .. kS+S) and targets one later; what is left at the end is not used.
/// llm.c (magic 20240520: u16, 20240801: u32) or headerless, u16 as nanoGPT writes it or u32. Without
/// RowShape::tokenBytes a headerless file is refused whose 16-bit tokens could not be those of the vocabulary, or look
/// like halves of 32-bit ones.
StatusOr<std::unique_ptr<TokenSource>> openBinSource(const std::string &path, const RowShape &shape);
/// Megatron's indexed data set: the sequences of the .bin beside `indexPath` as one stream, in file order.
StatusOr<std::unique_ptr<TokenSource>> openMegatronSource(const std::string &indexPath, const RowShape &shape);
/// A text: tokens are bytes.
StatusOr<std::unique_ptr<TokenSource>> openTextSource(const std::string &path, const RowShape &shape);

/// A text or .jsonl file, tokenized: the documents one after the other, in rows as those of token files. Tokens of
/// prompts do not count as targets. InvalidArgument, with the token's text, where one lies beyond the vocabulary.
StatusOr<std::unique_ptr<TokenSource>> openTokenizedSource(const std::string &path, const RowShape &shape,
                                                           const TextOptions &text);

// The same files for packed rows.

/// Each row of any length is a document, which ends with its last label that counts: nothing is learned from what
/// follows it.
StatusOr<std::unique_ptr<DocumentSource>> openSafetensorsDocuments(const std::string &path, const RowShape &shape);
/// Streams, cut after each token `documentEnd`; InvalidArgument without it.
StatusOr<std::unique_ptr<DocumentSource>> openBinDocuments(const std::string &path, const RowShape &shape,
                                                           std::optional<uint64_t> documentEnd);
StatusOr<std::unique_ptr<DocumentSource>> openTextDocuments(const std::string &path, const RowShape &shape,
                                                            std::optional<uint64_t> documentEnd);
/// The documents of Megatron's index.
StatusOr<std::unique_ptr<DocumentSource>> openMegatronDocuments(const std::string &indexPath, const RowShape &shape);
/// Lines of a .jsonl; InvalidArgument for a text, which is one document in all.
StatusOr<std::unique_ptr<DocumentSource>> openTokenizedDocuments(const std::string &path, const RowShape &shape,
                                                                 const TextOptions &text);

/// Reads ranges of a file that others may cut or replace while a run goes on: such a read of mapped memory would end
/// the process by a signal. Thread-safe.
class RowReader {
public:
  /// Of the file that is mapped as `mapped`: a path that leads to another size by now is refused.
  static StatusOr<RowReader> open(const MappedFile &mapped);
  /// The bytes, in memory of this thread that is used again by its next call with the same `place` (0 or 1).
  StatusOr<const std::byte *> read(uint64_t offset, uint64_t bytes, int place = 0) const;

private:
  explicit RowReader(File file) : file_(std::move(file)) {}
  File file_;
};

} // namespace ztc
