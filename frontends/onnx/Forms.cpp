#include "frontends/onnx/Forms.h"
#include "llvm/ADT/StringExtras.h"

using llvm::ArrayRef;
using llvm::StringRef;

namespace ztc::importer {

namespace {
/// The letters of one term; an ellipsis becomes `ellipsis` letters, the last ones of `kEllipsis`.
constexpr StringRef kEllipsis = "0123456789";

std::string lettersOf(StringRef term, size_t ellipsis) {
  std::string letters;
  for (size_t i = 0; i < term.size(); ++i) {
    if (term[i] == '.') {
      letters += kEllipsis.take_back(ellipsis);
      i += 2;
    } else if (term[i] != ' ') {
      letters += term[i];
    }
  }
  return letters;
}
} // namespace

std::optional<Einsum> parseEinsum(StringRef equation, ArrayRef<Shape> shapes, std::string &error) {
  std::string text;
  for (char c : equation)
    if (c != ' ')
      text += c;
  auto [left, right] = StringRef(text).split("->");
  llvm::SmallVector<StringRef> terms;
  left.split(terms, ',');
  auto fail = [&](const char *what) {
    error = "equation '" + equation.str() + "' " + what;
    return std::nullopt;
  };
  if (terms.size() != shapes.size())
    return fail("has another number of terms than operands");
  Einsum form;
  size_t widest = 0;
  std::map<char, unsigned> uses;
  for (auto [term, shape] : llvm::zip(terms, shapes)) {
    size_t letters = term.size() - (term.contains("...") ? 3 : 0);
    if (letters > shape.size() || (!term.contains("...") && letters != shape.size()) ||
        shape.size() - letters > kEllipsis.size())
      return fail("does not fit its operands' ranks");
    form.inputs.push_back(lettersOf(term, shape.size() - letters));
    if (form.inputs.back().size() != shape.size())
      return fail("is not understood");
    widest = std::max(widest, term.contains("...") ? shape.size() - letters : 0);
    for (auto [name, size] : llvm::zip(form.inputs.back(), shape)) {
      ++uses[name];
      int64_t &known = form.sizes.try_emplace(name, 1).first->second;
      if (known != size && known != 1 && size != 1)
        return fail("gives a name two sizes");
      known = known == 1 ? size : known;
    }
  }
  if (StringRef(text).contains("->")) {
    form.output = lettersOf(right, widest);
  } else { // names that stand once, in alphabetic order, after the ellipsis
    form.output = kEllipsis.take_back(widest).str();
    for (auto [name, count] : uses)
      if (count == 1 && !llvm::isDigit(name))
        form.output += name;
  }
  for (char name : form.output)
    if (!form.sizes.count(name))
      return fail("gives a dimension that no operand has");
  return form;
}

std::optional<ConvolutionForm> convolutionForm(const Node &node, ArrayRef<int64_t> x, ArrayRef<int64_t> w,
                                               std::string &error) {
  ConvolutionForm form;
  form.groups = node.integer("group", 1);
  if (x.size() < 3 || w.size() != x.size() || form.groups < 1 || x[1] != w[1] * form.groups || w[0] % form.groups) {
    error = "operands, weights and groups do not fit each other";
    return std::nullopt;
  }
  size_t spatial = x.size() - 2;
  auto orElse = [&](StringRef name, size_t count, int64_t otherwise) {
    ArrayRef<int64_t> given = node.integers(name);
    llvm::SmallVector<int64_t> list(given.begin(), given.end());
    list.resize(count, otherwise);
    return list;
  };
  form.strides = orElse("strides", spatial, 1);
  form.dilations = orElse("dilations", spatial, 1);
  llvm::SmallVector<int64_t> pads = orElse("pads", 2 * spatial, 0);
  std::string automatic = node.text("auto_pad", "NOTSET");
  for (size_t d = 0; d < spatial; ++d) {
    int64_t size = x[d + 2], reach = (w[d + 2] - 1) * form.dilations[d] + 1, stride = form.strides[d];
    if (stride < 1 || form.dilations[d] < 1) {
      error = "a stride or dilation is not a positive number";
      return std::nullopt;
    }
    int64_t low = pads[d], high = pads[d + spatial];
    if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
      int64_t total = std::max<int64_t>(((size + stride - 1) / stride - 1) * stride + reach - size, 0);
      low = automatic == "SAME_LOWER" ? (total + 1) / 2 : total / 2;
      high = total - low;
    } else if (automatic == "VALID") {
      low = high = 0;
    }
    int64_t places = (size + low + high - reach) / stride + 1;
    if (size + low + high < reach || low < 0 || high < 0) {
      error = "the window is wider than the padded operand";
      return std::nullopt;
    }
    form.low.push_back(low);
    form.high.push_back(high);
    form.outputs.push_back(places);
  }
  return form;
}

} // namespace ztc::importer
