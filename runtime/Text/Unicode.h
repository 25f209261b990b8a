// Characters of UTF-8 texts: their classes, their case, their normal forms.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ztc {

/// Where the first byte lies that is not UTF-8 (overlong forms and surrogates are not); nothing where all of `text` is.
std::optional<size_t> findInvalidUtf8(std::string_view text);

/// The character at `at` of a valid text, which is moved past it.
char32_t nextCharacter(std::string_view text, size_t &at);
/// The character that ends before `at` of a valid text, which is put at its beginning.
char32_t previousCharacter(std::string_view text, size_t &at);
void appendCharacter(std::string &text, char32_t character);
/// How many bytes the character has that begins with `first`.
inline size_t characterBytes(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}

/// The property White_Space.
bool isWhiteSpace(char32_t character);
/// Categories P*, and the other characters of ASCII that are not letters, digits, spaces or controls.
bool isPunctuation(char32_t character);
/// Categories Nd, Nl, No.
bool isNumeric(char32_t character);
/// Categories Mn, Mc, Me.
bool isMark(char32_t character);
/// Category Mn.
bool isNonspacingMark(char32_t character);
/// Categories Cc, Cf, Cn, Co, Cs.
bool isOther(char32_t character);
/// What regular expressions in Rust call \w: Alphabetic, marks, decimal digits, connectors, join controls.
bool isWordCharacter(char32_t character);

/// Each character by itself: a sigma at a word's end is as any other.
void appendLowercase(std::string &text, char32_t character);

enum class NormalForm { C, D, KC, KD };
/// A valid text in a normal form of Unicode (UAX #15).
std::string normalizeUnicode(std::string_view text, NormalForm form);

/// Extended grapheme clusters (UAX #29), one after the other.
class GraphemeReader {
public:
  explicit GraphemeReader(std::string_view text) : text_(text) {}
  /// The next one; empty at the end.
  std::string_view next();

private:
  std::string_view text_;
  size_t at_ = 0;
};

/// GPT-2's letters for bytes: each byte is one printable character, those of ASCII that are printable are themselves.
char32_t letterOfByte(uint8_t byte);
/// The byte that `letter` stands for; nothing where it is none of these letters.
std::optional<uint8_t> byteOfLetter(char32_t letter);
/// Appends the letters of all bytes of `text`.
void appendByteLetters(std::string &to, std::string_view text);

/// `text` with U+FFFD in place of what is not UTF-8, one for each longest part that begins a character, as WHATWG's
/// decoder and Rust's from_utf8_lossy have it.
std::string replaceInvalidUtf8(std::string_view text);

} // namespace ztc
