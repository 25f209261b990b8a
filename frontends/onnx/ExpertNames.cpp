#include "frontends/onnx/ExpertNames.h"
#include "llvm/ADT/StringExtras.h"

using llvm::ArrayRef;
using llvm::StringRef;

namespace ztc::importer {
namespace {

/// transformers 5's name of the stack, and the matrices that it joins, as the model's authors called them.
struct Convention {
  StringRef stack;
  llvm::SmallVector<StringRef, 2> matrices;
};

ArrayRef<Convention> conventions() {
  static const Convention list[] = {{"gate_up_proj", {"gate_proj", "up_proj"}},
                                    {"gate_up_proj", {"w1", "w3"}},
                                    {"down_proj", {"down_proj"}},
                                    {"down_proj", {"w2"}},
                                    {"up_proj", {"up_proj"}},
                                    {"gate_proj", {"gate_proj"}}};
  return list;
}

/// `form`'s pieces give these dimensions of one matrix, transposed or not; sets the orientation.
bool fits(WeightForm &form, const WeightMatcher &checkpoint, ArrayRef<int64_t> matrix) {
  int64_t rows = 0, columns = -1;
  for (const WeightForm::Piece &piece : form.pieces) {
    const Shape &shape = checkpoint[*checkpoint.indexOf(piece.tensor)].shape;
    if (shape.size() != 2 || (columns >= 0 && shape[1] != columns))
      return false;
    rows += shape[0];
    columns = shape[1];
  }
  form.isTransposed = matrix != ArrayRef<int64_t>({rows, columns});
  return !form.isTransposed || matrix == ArrayRef<int64_t>({columns, rows});
}

} // namespace

std::optional<WeightForm> stackedExperts(StringRef name, ArrayRef<int64_t> shape, const WeightMatcher &checkpoint) {
  auto [path, leaf] = name.rsplit(".experts.");
  if (shape.size() != 3 || leaf.empty())
    return std::nullopt;
  StringRef layer = path.rsplit('.').first;
  for (const Convention &convention : conventions())
    for (const std::string &module : {path.str(), layer.str() + ".block_sparse_moe", layer.str() + ".mlp"}) {
      if (convention.stack != leaf)
        continue;
      WeightForm form;
      form.matrices = shape[0];
      for (int64_t e = 0; e < shape[0]; ++e) {
        WeightForm one;
        for (StringRef matrix : convention.matrices)
          if (auto index =
                  checkpoint.indexOf(module + ".experts." + std::to_string(e) + "." + matrix.str() + ".weight"))
            one.pieces.push_back({checkpoint[*index].name});
        if (one.pieces.size() != convention.matrices.size() || !fits(one, checkpoint, shape.drop_front()) ||
            (e && one.isTransposed != form.isTransposed))
          break;
        form.isTransposed = one.isTransposed;
        form.pieces.insert(form.pieces.end(), one.pieces.begin(), one.pieces.end());
      }
      if (form.pieces.size() == convention.matrices.size() * size_t(shape[0]) && shape[0])
        return form;
    }
  return std::nullopt;
}

} // namespace ztc::importer
