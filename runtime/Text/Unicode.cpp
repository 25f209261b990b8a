#include "runtime/Text/Unicode.h"
#include <array>
#include <cstdlib>
#include <utf8proc.h>

namespace ztc {

/// The bytes of the character that begins at `at`; 0 where it is none, with the length of what begins one in `broken`.
static size_t validBytes(std::string_view text, size_t at, size_t &broken) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const size_t left = text.size() - at;
  broken = 1;
  if (byte(0) < 0x80)
    return 1;
  if (byte(0) < 0xc2 || byte(0) > 0xf4)
    return 0;
  const size_t length = byte(0) < 0xe0 ? 2 : byte(0) < 0xf0 ? 3 : 4;
  // The second byte's range keeps out overlong forms, surrogates and what lies beyond U+10FFFF.
  const unsigned low = byte(0) == 0xe0   ? 0xa0
                       : byte(0) == 0xf0 ? 0x90
                                         : 0x80,
                 high = byte(0) == 0xed   ? 0x9f
                        : byte(0) == 0xf4 ? 0x8f
                                          : 0xbf;
  for (size_t i = 1; i < length; ++i) {
    if (i == left || byte(i) < (i == 1 ? low : 0x80) || byte(i) > (i == 1 ? high : 0xbf)) {
      broken = i;
      return 0;
    }
  }
  return length;
}

std::optional<size_t> findInvalidUtf8(std::string_view text) {
  size_t broken = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t bytes = validBytes(text, at, broken);
    if (bytes == 0)
      return at;
    at += bytes;
  }
  return std::nullopt;
}

std::string replaceInvalidUtf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    size_t broken = 0;
    const size_t bytes = validBytes(text, at, broken);
    out += bytes ? text.substr(at, bytes) : std::string_view("\xef\xbf\xbd");
    at += bytes ? bytes : broken;
  }
  return out;
}

char32_t nextCharacter(std::string_view text, size_t &at) {
  const auto byte = [&] { return static_cast<unsigned char>(text[at++]); };
  const char32_t first = byte();
  if (first < 0x80)
    return first;
  if (first < 0xe0) {
    const char32_t second = byte();
    return (first & 0x1f) << 6 | (second & 0x3f);
  }
  char32_t character = first < 0xf0 ? first & 0x0f : first & 0x07;
  for (int i = first < 0xf0 ? 2 : 3; i > 0; --i)
    character = character << 6 | (byte() & 0x3f);
  return character;
}

char32_t previousCharacter(std::string_view text, size_t &at) {
  do
    --at;
  while ((static_cast<unsigned char>(text[at]) & 0xc0) == 0x80);
  size_t end = at;
  return nextCharacter(text, end);
}

void appendCharacter(std::string &text, char32_t character) {
  if (character < 0x80) {
    text += static_cast<char>(character);
  } else if (character < 0x800) {
    text += static_cast<char>(0xc0 | character >> 6);
    text += static_cast<char>(0x80 | (character & 0x3f));
  } else if (character < 0x10000) {
    text += static_cast<char>(0xe0 | character >> 12);
    text += static_cast<char>(0x80 | (character >> 6 & 0x3f));
    text += static_cast<char>(0x80 | (character & 0x3f));
  } else {
    text += static_cast<char>(0xf0 | character >> 18);
    text += static_cast<char>(0x80 | (character >> 12 & 0x3f));
    text += static_cast<char>(0x80 | (character >> 6 & 0x3f));
    text += static_cast<char>(0x80 | (character & 0x3f));
  }
}

bool isWhiteSpace(char32_t c) {
  if (c < 0x80)
    return c == ' ' || (c >= '\t' && c <= '\r');
  return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
         c == 0x202f || c == 0x205f || c == 0x3000;
}

static utf8proc_category_t category(char32_t character) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(character));
}

bool isPunctuation(char32_t c) {
  if (c < 0x80)
    return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
  const utf8proc_category_t is = category(c);
  return is >= UTF8PROC_CATEGORY_PC && is <= UTF8PROC_CATEGORY_PO;
}

bool isNumeric(char32_t c) {
  if (c < 0x80)
    return c >= '0' && c <= '9';
  const utf8proc_category_t is = category(c);
  return is >= UTF8PROC_CATEGORY_ND && is <= UTF8PROC_CATEGORY_NO;
}

bool isMark(char32_t c) {
  const utf8proc_category_t is = category(c);
  return is >= UTF8PROC_CATEGORY_MN && is <= UTF8PROC_CATEGORY_ME;
}

bool isNonspacingMark(char32_t c) {
  return category(c) == UTF8PROC_CATEGORY_MN;
}

bool isOther(char32_t c) {
  const utf8proc_category_t is = category(c);
  return is == UTF8PROC_CATEGORY_CN || is >= UTF8PROC_CATEGORY_CC;
}

bool isWordCharacter(char32_t c) {
  switch (category(c)) {
  case UTF8PROC_CATEGORY_LU:
  case UTF8PROC_CATEGORY_LL:
  case UTF8PROC_CATEGORY_LT:
  case UTF8PROC_CATEGORY_LM:
  case UTF8PROC_CATEGORY_LO:
  case UTF8PROC_CATEGORY_MN:
  case UTF8PROC_CATEGORY_MC:
  case UTF8PROC_CATEGORY_ME:
  case UTF8PROC_CATEGORY_ND:
  case UTF8PROC_CATEGORY_NL:
  case UTF8PROC_CATEGORY_PC:
    return true;
  default: // the letters in circles and squares that are alphabetic; zero width (non-)joiner
    return (c >= 0x24b6 && c <= 0x24e9) || (c >= 0x1f130 && c <= 0x1f149) || (c >= 0x1f150 && c <= 0x1f169) ||
           (c >= 0x1f170 && c <= 0x1f189) || c == 0x200c || c == 0x200d;
  }
}

void appendLowercase(std::string &text, char32_t c) {
  if (c == 0x130) // the one character that becomes two (SpecialCasing.txt, without conditions)
    text += "i\xcc\x87";
  else
    appendCharacter(text, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
}

std::string normalizeUnicode(std::string_view text, NormalForm form) {
  bool plain = true; // ASCII is in all normal forms
  for (const char c : text)
    plain &= static_cast<signed char>(c) >= 0;
  if (plain)
    return std::string(text);
  const bool compatible = form == NormalForm::KC || form == NormalForm::KD,
             composed = form == NormalForm::C || form == NormalForm::KC;
  const int options =
      UTF8PROC_STABLE | (compatible ? UTF8PROC_COMPAT : 0) | (composed ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE);
  utf8proc_uint8_t *mapped = nullptr;
  const utf8proc_ssize_t bytes =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t *>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                   &mapped, static_cast<utf8proc_option_t>(options));
  if (bytes < 0) // none of a valid text but want of memory
    return std::string(text);
  std::string out(reinterpret_cast<const char *>(mapped), static_cast<size_t>(bytes));
  std::free(mapped);
  return out;
}

std::string_view GraphemeReader::next() {
  const size_t begin = at_;
  if (begin == text_.size())
    return {};
  utf8proc_int32_t state = 0;
  char32_t last = nextCharacter(text_, at_);
  while (at_ < text_.size()) {
    size_t next = at_;
    const char32_t following = nextCharacter(text_, next);
    if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(last), static_cast<utf8proc_int32_t>(following),
                                         &state))
      break;
    last = following;
    at_ = next;
  }
  return text_.substr(begin, at_ - begin);
}

/// Bytes that GPT-2's letters show as themselves.
static constexpr bool isShown(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

namespace {

struct ByteLetters {
  std::array<char32_t, 256> letters{};
  std::array<int16_t, 0x180> bytes{};
  constexpr ByteLetters() {
    bytes.fill(-1);
    char32_t free = 0x100; // the others get the letters from here on, in order
    for (unsigned byte = 0; byte < 256; ++byte) {
      letters[byte] = isShown(byte) ? byte : free++;
      bytes[letters[byte]] = static_cast<int16_t>(byte);
    }
  }
};
constexpr ByteLetters kByteLetters;

} // namespace

char32_t letterOfByte(uint8_t byte) {
  return kByteLetters.letters[byte];
}

std::optional<uint8_t> byteOfLetter(char32_t letter) {
  if (letter >= kByteLetters.bytes.size() || kByteLetters.bytes[letter] < 0)
    return std::nullopt;
  return static_cast<uint8_t>(kByteLetters.bytes[letter]);
}

void appendByteLetters(std::string &to, std::string_view text) {
  for (const char c : text)
    appendCharacter(to, kByteLetters.letters[static_cast<unsigned char>(c)]);
}

} // namespace ztc
