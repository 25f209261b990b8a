#include "runtime/Core/Packing.h"
#include "runtime/Core/Random.h"
#include <algorithm>
#include <bit>

namespace ztc {

namespace {

/// Rows by the room that is left in them.
class Rooms {
public:
  explicit Rooms(uint64_t seq) : rows_(seq + 1), any_(seq / 64 + 1) {}

  void add(uint64_t room, uint64_t row) {
    rows_[room].push_back(row);
    any_[room / 64] |= uint64_t(1) << room % 64;
  }
  /// Takes a row with room for `places`, as little as there is; `none` where all are too full.
  uint64_t take(uint64_t places, uint64_t none, uint64_t &room) {
    uint64_t word = places / 64, bits = any_[word] & ~uint64_t(0) << places % 64;
    while (!bits && ++word < any_.size())
      bits = any_[word];
    if (!bits)
      return none;
    room = word * 64 + uint64_t(std::countr_zero(bits));
    std::vector<uint64_t> &rows = rows_[room];
    const uint64_t row = rows.back();
    rows.pop_back();
    if (rows.empty())
      any_[word] &= ~(uint64_t(1) << room % 64);
    return row;
  }

private:
  std::vector<std::vector<uint64_t>> rows_;
  std::vector<uint64_t> any_; ///< a bit for each room that some row has
};

/// Pieces of equal length stay in their order.
std::vector<DocumentPiece> longestFirst(std::span<const DocumentPiece> pieces, uint64_t seq) {
  std::vector<uint64_t> next(seq + 1); // by length: where the next one goes
  for (const DocumentPiece &piece : pieces)
    if (piece.places > 0)
      ++next[piece.places - 1];
  for (uint64_t places = seq; places-- > 0;)
    next[places] += next[places + 1];
  std::vector<DocumentPiece> sorted(pieces.size());
  for (const DocumentPiece &piece : pieces)
    sorted[next[piece.places]++] = piece;
  return sorted;
}

/// Streams of permuteIndex that no epoch has.
constexpr uint64_t kPieceOrder = ~uint64_t(0), kRowOrder = ~uint64_t(1);

} // namespace

PackedRows packDocuments(std::span<const uint64_t> places, uint64_t seq, bool dropLong, uint64_t seed) {
  PackedRows packed;
  PackingSummary &summary = packed.summary;
  summary.documents = places.size();
  std::vector<DocumentPiece> pieces;
  for (uint64_t i = 0; i < places.size(); ++i) {
    const uint64_t document = permuteIndex(i, places.size(), seed, kPieceOrder), length = places[document];
    summary.empty += length == 0;
    if (length > seq) {
      ++(dropLong ? summary.dropped : summary.cut);
      if (dropLong)
        continue;
    }
    for (uint64_t first = 0; first < length; first += seq)
      pieces.push_back({document, first, std::min(seq, length - first)});
    summary.places += length;
  }
  pieces = longestFirst(pieces, seq);

  Rooms rooms(seq);
  std::vector<uint64_t> rowOf(pieces.size());
  for (uint64_t i = 0; i < pieces.size(); ++i) {
    uint64_t room = seq;
    rowOf[i] = rooms.take(pieces[i].places, summary.rows, room);
    summary.rows += rowOf[i] == summary.rows;
    if (room > pieces[i].places)
      rooms.add(room - pieces[i].places, rowOf[i]);
  }
  // Rows in an order of the seed's: as they were filled, the longest documents would all come first.
  std::vector<uint64_t> placeOf(summary.rows);
  for (uint64_t row = 0; row < summary.rows; ++row)
    placeOf[permuteIndex(row, summary.rows, seed, kRowOrder)] = row;
  packed.firstPieces.assign(summary.rows + 1, 0);
  for (uint64_t row : rowOf)
    ++packed.firstPieces[placeOf[row] + 1];
  for (uint64_t row = 0; row < summary.rows; ++row)
    packed.firstPieces[row + 1] += packed.firstPieces[row];
  std::vector<uint64_t> next(packed.firstPieces.begin(), packed.firstPieces.end() - 1);
  packed.pieces.resize(pieces.size());
  for (uint64_t i = 0; i < pieces.size(); ++i)
    packed.pieces[next[placeOf[rowOf[i]]]++] = pieces[i];
  for (uint64_t row = 0; row < summary.rows; ++row) {
    DocumentBounds bounds{.most = packed.row(row).size()};
    uint64_t padding = seq;
    for (const DocumentPiece &piece : packed.row(row)) {
      bounds.longest = std::max(bounds.longest, piece.places);
      padding -= piece.places;
    }
    packed.bounds = packed.bounds.join({bounds.most + (padding > 0), std::max(bounds.longest, padding)});
  }
  return packed;
}

} // namespace ztc
