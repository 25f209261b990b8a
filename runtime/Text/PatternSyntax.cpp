// Oniguruma's Ruby syntax (its doc/RE and doc/SYNTAX.md) in PCRE2's.
#define PCRE2_CODE_UNIT_WIDTH 8
#include "runtime/Text/Pattern.h"
#include "runtime/Text/Unicode.h"
#include <array>
#include <cctype>
#include <fmt/format.h>
#include <optional>
#include <pcre2.h>
#include <utility>

namespace ztc {

namespace {

/// White_Space. PCRE2's \s has U+180E too.
constexpr std::string_view kSpace = R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029})"
                                    R"(\x{202f}\x{205f}\x{3000})";
constexpr std::string_view kNotSpace = R"(\S\x{180e})";
/// PCRE2's \w has no marks and no connectors but the low line.
constexpr std::string_view kWord = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})";
constexpr std::string_view kHexDigit = "0-9a-fA-F";
constexpr std::string_view kAnyCharacter = "(?s:.)";
constexpr int kDeepestClass = 20;

/// Names of general categories without spaces, hyphens and low lines.
constexpr std::array<std::pair<std::string_view, std::string_view>, 38> kCategories{{
    {"letter", "L"},
    {"uppercaseletter", "Lu"},
    {"lowercaseletter", "Ll"},
    {"titlecaseletter", "Lt"},
    {"casedletter", "L&"},
    {"lc", "L&"},
    {"modifierletter", "Lm"},
    {"otherletter", "Lo"},
    {"mark", "M"},
    {"nonspacingmark", "Mn"},
    {"spacingmark", "Mc"},
    {"enclosingmark", "Me"},
    {"number", "N"},
    {"decimalnumber", "Nd"},
    {"letternumber", "Nl"},
    {"othernumber", "No"},
    {"punctuation", "P"},
    {"connectorpunctuation", "Pc"},
    {"dashpunctuation", "Pd"},
    {"openpunctuation", "Ps"},
    {"closepunctuation", "Pe"},
    {"initialpunctuation", "Pi"},
    {"finalpunctuation", "Pf"},
    {"otherpunctuation", "Po"},
    {"symbol", "S"},
    {"mathsymbol", "Sm"},
    {"currencysymbol", "Sc"},
    {"modifiersymbol", "Sk"},
    {"othersymbol", "So"},
    {"separator", "Z"},
    {"spaceseparator", "Zs"},
    {"lineseparator", "Zl"},
    {"paragraphseparator", "Zp"},
    {"other", "C"},
    {"control", "Cc"},
    {"format", "Cf"},
    {"unassigned", "Cn"},
    {"privateuse", "Co"},
}};

/// What stands in a bracket for a POSIX class, under Unicode.
constexpr std::array<std::pair<std::string_view, std::string_view>, 14> kPosixClasses{{
    {"alpha", R"(\p{Alphabetic})"},
    {"alnum", R"(\p{Alphabetic}\p{Nd})"},
    {"lower", R"(\p{Lowercase})"},
    {"upper", R"(\p{Uppercase})"},
    {"digit", R"(\p{Nd})"},
    {"xdigit", kHexDigit},
    {"space", kSpace},
    {"blank", R"(\p{Zs}\t)"},
    {"cntrl", R"(\p{Cc})"},
    {"word", kWord},
    {"punct", R"(\p{P}$+<=>\^`|~)"},
    {"graph", "[:graph:]"},
    {"print", "[:print:]"},
    {"ascii", R"(\x{0}-\x{7f})"},
}};

template <size_t N>
std::optional<std::string_view> find(const std::array<std::pair<std::string_view, std::string_view>, N> &table,
                                     std::string_view name) {
  for (const auto &[key, value] : table)
    if (key == name)
      return value;
  return std::nullopt;
}

bool compiles(const std::string &pattern) {
  int error = 0;
  PCRE2_SIZE at = 0;
  pcre2_code *code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), PCRE2_UTF | PCRE2_UCP,
                                   &error, &at, nullptr);
  pcre2_code_free(code);
  return code != nullptr;
}

/// A set of characters: what stands in a bracket, and whether it is everything else.
struct CharacterSet {
  std::string content;
  bool negated = false;
  std::string bracket() const { return (negated ? "[^" : "[") + content + "]"; }
};

class Translator {
public:
  explicit Translator(std::string_view in) : in_(in) {}

  StatusOr<std::string> run() {
    groups_.push_back({});
    while (at_ < in_.size())
      ZTC_RETURN_IF_ERROR(step());
    if (groups_.size() != 1)
      return invalidArgument("a parenthesis is not closed");
    closeGroup();
    return StatusOr<std::string>(std::move(out_));
  }

private:
  struct Group {
    size_t begin = 0;        ///< in out_
    std::string extraCloses; ///< of options that last until the group's end
  };

  bool has(char c, size_t ahead = 0) const { return at_ + ahead < in_.size() && in_[at_ + ahead] == c; }
  void closeGroup() {
    out_ += groups_.back().extraCloses;
    atom_ = groups_.back().begin;
    groups_.pop_back();
  }
  void atom(std::string_view text) {
    atom_ = out_.size();
    out_ += text;
  }

  Status step() {
    switch (in_[at_]) {
    case '\\':
      return escape();
    case '[': {
      ZTC_ASSIGN_OR_RETURN(const std::string expression, bracket(0));
      atom(expression);
      return Status::ok();
    }
    case '(':
      return openGroup();
    case ')':
      if (groups_.size() == 1)
        return invalidArgument("a parenthesis closes that was not opened");
      ++at_;
      closeGroup();
      out_ += ')';
      return Status::ok();
    case '*':
    case '+':
    case '?':
      return quantifier(std::string(1, in_[at_++]), true);
    case '{':
      return interval();
    case '|':
    case '^':
    case '$':
      out_ += in_[at_++];
      return Status::ok();
    default: {
      const size_t bytes = characterBytes(in_[at_]);
      atom(in_.substr(at_, bytes));
      at_ += bytes;
      return Status::ok();
    }
    }
  }

  bool quantifierFollows() const { return has('*') || has('+') || has('?') || (has('{') && readInterval()); }

  /// Whether ? after it makes it lazy, + possessive; else these are quantifiers of their own.
  Status quantifier(const std::string &text, bool takesLazy, bool takesPossessive = true) {
    out_ += text;
    if ((takesLazy && has('?')) || (takesPossessive && has('+')))
      out_ += in_[at_++];
    if (quantifierFollows()) { // of what is repeated already
      out_.insert(atom_, "(?:");
      out_ += ')';
    }
    return Status::ok();
  }

  struct Interval {
    std::string text;
    bool isFixed = false;
    size_t end = 0;
  };
  /// {n}, {n,}, {n,m}, {,m}; nothing where the brace is a character.
  std::optional<Interval> readInterval() const {
    size_t i = at_ + 1;
    const auto number = [&] {
      const size_t begin = i;
      while (i < in_.size() && in_[i] >= '0' && in_[i] <= '9')
        ++i;
      return std::string(in_.substr(begin, i - begin));
    };
    const std::string low = number();
    const bool hasComma = i < in_.size() && in_[i] == ',';
    i += hasComma;
    const std::string high = hasComma ? number() : "";
    if (i >= in_.size() || in_[i] != '}' || (low.empty() && high.empty()))
      return std::nullopt;
    return Interval{"{" + (low.empty() ? "0" : low) + (hasComma ? "," + high : "") + "}", !hasComma, i + 1};
  }

  Status interval() {
    const std::optional<Interval> found = readInterval();
    if (!found) {
      atom("\\{");
      ++at_;
      return Status::ok();
    }
    at_ = found->end;
    return quantifier(found->text, !found->isFixed, false);
  }

  Status openGroup() {
    groups_.push_back({out_.size(), {}});
    out_ += in_[at_++];
    if (!has('?'))
      return Status::ok();
    if (has('#', 1)) {
      const size_t end = in_.find(')', at_);
      if (end == std::string_view::npos)
        return invalidArgument("a comment is not closed");
      at_ = end;
      out_ += "?#";
      return Status::ok();
    }
    size_t i = at_ + 1;
    std::string options;
    while (i < in_.size() && (in_[i] == '-' || std::isalpha(static_cast<unsigned char>(in_[i])))) {
      if (std::string_view("imx-").find(in_[i]) == std::string_view::npos)
        return Status::ok(); // a named group, a condition: PCRE2 says what it does not know
      options += in_[i] == 'm' ? 's' : in_[i];
      ++i;
    }
    if (options.empty() || i >= in_.size() || (in_[i] != ':' && in_[i] != ')'))
      return Status::ok();
    out_ += "?" + options;
    at_ = i;
    if (in_[i] == ')') { // these options last until the end of the group that they stand in, alternatives included
      groups_.pop_back();
      groups_.back().extraCloses += ')';
      ++at_;
      out_ += ':';
    }
    return Status::ok();
  }

  /// After a backslash: the characters that its letter stands for; nothing where it stands for something else.
  StatusOr<std::optional<CharacterSet>> setOfEscape() {
    using Result = StatusOr<std::optional<CharacterSet>>;
    const char letter = in_[at_];
    const auto set = [&](std::string_view content, bool negated) {
      ++at_;
      return Result(std::optional(CharacterSet{std::string(content), negated}));
    };
    switch (letter) {
    case 's':
    case 'S':
      return set(kSpace, letter == 'S');
    case 'w':
    case 'W':
      return set(kWord, letter == 'W');
    case 'd':
    case 'D':
      return set(R"(\p{Nd})", letter == 'D');
    case 'h':
    case 'H':
      return set(kHexDigit, letter == 'H');
    case 'p':
    case 'P': {
      ZTC_ASSIGN_OR_RETURN(CharacterSet found, property());
      return Result(std::optional(std::move(found)));
    }
    default:
      return Result(std::optional<CharacterSet>());
    }
  }

  StatusOr<CharacterSet> property() {
    bool negated = in_[at_] == 'P';
    const size_t end = in_.find('}', at_);
    if (!has('{', 1) || end == std::string_view::npos)
      return invalidArgument("\\p is not followed by a property in braces");
    std::string_view given = in_.substr(at_ + 2, end - at_ - 2);
    if (given.starts_with('^')) {
      negated = !negated;
      given.remove_prefix(1);
    }
    std::string name;
    for (const char c : given) {
      if (std::isalnum(static_cast<unsigned char>(c)))
        name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      else if (c != ' ' && c != '-' && c != '_' && c != '&')
        return invalidArgument(fmt::format("unknown property '{}'", given));
    }
    at_ = end + 1;
    if (const auto category = find(kCategories, name))
      return CharacterSet{fmt::format("\\p{{{}}}", *category), negated};
    if (const auto posix = find(kPosixClasses, name))
      return CharacterSet{std::string(*posix), negated};
    if (name.size() <= 2 && compiles(fmt::format("\\p{{{}}}", given)))
      return CharacterSet{fmt::format("\\p{{{}}}", given), negated};
    // A script's name alone would be that of the script's extensions too.
    for (const char *kind : {"sc:", ""})
      if (const std::string text = fmt::format("\\p{{{}{}}}", kind, name); compiles(text))
        return CharacterSet{text, negated};
    return invalidArgument(fmt::format("unknown property '{}'", given));
  }

  /// After a backslash: a character by its number; nothing where it is another escape.
  std::optional<std::string> numberedCharacter() {
    const bool isBraced = in_[at_] == 'x' && has('{', 1);
    if (!isBraced && in_[at_] != 'x' && in_[at_] != 'u')
      return std::nullopt;
    const size_t begin = at_ + 1 + isBraced, most = isBraced ? 8 : in_[at_] == 'x' ? 2 : 4;
    size_t i = begin;
    while (i < in_.size() && i - begin < most && std::isxdigit(static_cast<unsigned char>(in_[i])))
      ++i;
    if (i == begin || (isBraced && (i >= in_.size() || in_[i] != '}')))
      return std::nullopt;
    std::string text = fmt::format("\\x{{{}}}", in_.substr(begin, i - begin));
    at_ = i + isBraced;
    return text;
  }

  /// After a backslash: what stands for itself.
  std::string plainCharacter() {
    const char letter = in_[at_];
    if (letter == 'v') {
      ++at_;
      return "\\x{b}";
    }
    const size_t bytes = characterBytes(letter);
    std::string text(in_.substr(at_, bytes));
    at_ += bytes;
    const bool keepsBackslash = std::ispunct(static_cast<unsigned char>(letter)) ||
                                std::string_view("nrtfae0").find(letter) != std::string_view::npos;
    return keepsBackslash ? "\\" + text : text;
  }

  Status escape() {
    if (++at_ == in_.size())
      return invalidArgument("a backslash stands at the end");
    ZTC_ASSIGN_OR_RETURN(const std::optional<CharacterSet> set, setOfEscape());
    if (set) {
      atom(set->bracket());
      return Status::ok();
    }
    if (const auto numbered = numberedCharacter()) {
      atom(*numbered);
      return Status::ok();
    }
    const char letter = in_[at_];
    const std::string word = fmt::format("[{}]", kWord);
    switch (letter) {
    case 'b':
      ++at_;
      atom(fmt::format("(?:(?<={0})(?!{0})|(?<!{0})(?={0}))", word));
      return Status::ok();
    case 'B':
      ++at_;
      atom(fmt::format("(?:(?<={0})(?={0})|(?<!{0})(?!{0}))", word));
      return Status::ok();
    case 'O':
      ++at_;
      atom(kAnyCharacter);
      return Status::ok();
    case 'c':
    case 'C':
    case 'M':
    case 'y':
    case 'Y':
      return invalidArgument(fmt::format("\\{} is not supported", letter));
    default:
      break;
    }
    if (std::string_view("AzZGKRXNkg123456789").find(letter) != std::string_view::npos) {
      ++at_;
      atom(fmt::format("\\{}", letter));
      return Status::ok();
    }
    atom(plainCharacter());
    return Status::ok();
  }

  /// What stands between two && of a bracket.
  struct Operand {
    std::string simple;              ///< fits into a bracket
    std::vector<std::string> nested; ///< expressions for one character each
    std::string expression() const {
      std::string all = simple.empty() ? "" : "[" + simple + "]";
      for (const std::string &one : nested)
        all += (all.empty() ? "" : "|") + one;
      return nested.empty() ? all : "(?:" + all + ")";
    }
  };

  Status posixClass(Operand &operand) {
    const size_t end = in_.find(":]", at_ + 2);
    if (end == std::string_view::npos)
      return invalidArgument("[: without :]");
    std::string_view name = in_.substr(at_ + 2, end - at_ - 2);
    const bool negated = name.starts_with('^');
    if (negated)
      name.remove_prefix(1);
    const auto content = find(kPosixClasses, name);
    if (!content)
      return invalidArgument(fmt::format("unknown class [:{}:]", name));
    at_ = end + 2;
    add(operand, {std::string(*content), negated});
    return Status::ok();
  }

  static void add(Operand &operand, const CharacterSet &set) {
    if (!set.negated)
      operand.simple += set.content;
    else if (set.content == kSpace)
      operand.simple += kNotSpace;
    else
      operand.nested.push_back(set.bracket());
  }

  Status item(Operand &operand, int depth) {
    if (has('[')) {
      if (has(':', 1))
        return posixClass(operand);
      ZTC_ASSIGN_OR_RETURN(std::string inner, bracket(depth + 1));
      operand.nested.push_back(std::move(inner));
      return Status::ok();
    }
    if (!has('\\')) {
      if (has('^'))
        operand.simple += '\\'; // it may come to stand first
      const size_t bytes = characterBytes(in_[at_]);
      operand.simple += in_.substr(at_, bytes);
      at_ += bytes;
      return Status::ok();
    }
    if (++at_ == in_.size())
      return invalidArgument("a backslash stands at the end");
    ZTC_ASSIGN_OR_RETURN(const std::optional<CharacterSet> set, setOfEscape());
    if (set) {
      add(operand, *set);
      return Status::ok();
    }
    if (const auto numbered = numberedCharacter()) {
      operand.simple += *numbered;
      return Status::ok();
    }
    if (has('b')) {
      ++at_;
      operand.simple += "\\x{8}";
      return Status::ok();
    }
    operand.simple += plainCharacter();
    return Status::ok();
  }

  /// An expression for one character of the class that begins here.
  StatusOr<std::string> bracket(int depth) {
    if (depth > kDeepestClass)
      return invalidArgument("classes lie too deep in one another");
    ++at_;
    const bool negated = has('^');
    at_ += negated;
    std::vector<Operand> operands(1);
    if (has(']')) { // the first one is a character
      operands.back().simple += "\\]";
      ++at_;
    }
    while (!has(']')) {
      if (at_ >= in_.size())
        return invalidArgument("a bracket is not closed");
      if (has('&') && has('&', 1)) {
        at_ += 2;
        operands.emplace_back();
        continue;
      }
      ZTC_RETURN_IF_ERROR(item(operands.back(), depth));
    }
    ++at_;
    std::string all;
    for (size_t i = 0; i < operands.size(); ++i) {
      const std::string one = operands[i].expression();
      if (one.empty())
        return invalidArgument("an empty class");
      all += i + 1 < operands.size() ? "(?=" + one + ")" : one;
    }
    if (operands.size() > 1)
      all = "(?:" + all + ")";
    if (!negated)
      return StatusOr<std::string>(std::move(all));
    if (operands.size() == 1 && operands[0].nested.empty())
      return "[^" + operands[0].simple + "]";
    return fmt::format("(?:(?!{}){})", all, kAnyCharacter);
  }

  std::string_view in_;
  size_t at_ = 0;
  std::string out_;
  size_t atom_ = 0; ///< where in out_ the last expression begins that a quantifier repeats
  std::vector<Group> groups_;
};

} // namespace

StatusOr<std::string> translatePattern(std::string_view oniguruma) {
  if (findInvalidUtf8(oniguruma))
    return invalidArgument("it is not UTF-8");
  return Translator(oniguruma).run();
}

} // namespace ztc
