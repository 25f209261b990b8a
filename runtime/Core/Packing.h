// Several documents in a row: which ones go together.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace ztc {

/// A document, or a part of one that is longer than a row.
struct DocumentPiece {
  uint64_t document = 0;
  uint64_t first = 0;  ///< place of the document that it begins with
  uint64_t places = 0; ///< S at most
};

/// What no row goes beyond.
struct DocumentBounds {
  uint64_t most = 0;    ///< documents of a row, padding among them; 0: not known
  uint64_t longest = 0; ///< places of one

  /// Of these rows and of others.
  DocumentBounds join(DocumentBounds other) const {
    return {std::max(most, other.most), std::max(longest, other.longest)};
  }
  bool operator==(const DocumentBounds &) const = default;
};

/// What packing made of the documents.
struct PackingSummary {
  uint64_t documents = 0; ///< all that there are
  uint64_t places = 0;    ///< that hold tokens of them; rows times S less this is padding
  uint64_t rows = 0;
  uint64_t cut = 0;     ///< documents longer than a row, in pieces that know nothing of each other
  uint64_t dropped = 0; ///< documents longer than a row that were left out
  uint64_t empty = 0;   ///< documents with nothing to learn: fewer than two tokens, or no target that counts

  double paddingShare(uint64_t seq) const { return rows ? 1 - double(places) / (double(rows) * double(seq)) : 0; }
};

/// Rows of pieces.
struct PackedRows {
  std::vector<DocumentPiece> pieces; ///< row after row
  std::vector<uint64_t> firstPieces; ///< by row; and, last, how many there are
  PackingSummary summary;

  DocumentBounds bounds; ///< padding is one document more at the end of a row

  std::span<const DocumentPiece> row(uint64_t index) const {
    return std::span(pieces).subspan(firstPieces[index], firstPieces[index + 1] - firstPieces[index]);
  }
};

/// Best fit, longest first (Johnson 1973): a piece goes into the row with the least room that it fits into. `places` is
/// the length of each document, 0 for one with nothing to learn. Which of several equal ones comes first, and the order
/// of the rows, follow from `seed` and nothing else.
PackedRows packDocuments(std::span<const uint64_t> places, uint64_t seq, bool dropLong, uint64_t seed);

} // namespace ztc
