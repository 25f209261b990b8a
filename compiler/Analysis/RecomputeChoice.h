// What is computed again in which transformer block.
#pragma once
#include "mlir/Support/LLVM.h"
#include <array>
#include <cstdint>
#include <map>
#include <string>

namespace ztc {

/// Groups of a block's forward ops, in the order in which they are worth computing again. All products into the width
/// of the model cost the same per byte; attention is slower than a product, and what reads a wider row costs more.
enum class RecomputeGroup : uint8_t {
  Pointwise,  ///< norms, activations, casts: what no library runs, from values that are kept
  Mlp,        ///< products that another product of the block depends on: gate and up, a router, what experts begin with
  Qkv,        ///< products that attention depends on, and the rotation after them
  Projection, ///< the first products after attention, and the sum of the residual stream after them
  Attention,  ///< attention with its row statistics: with it all of the block but what the next one reads
  Down,       ///< a block's last products: needed again only where something reads them before the residual stream
};
inline constexpr unsigned kRecomputeGroups = 6;
/// pointwise, mlp, qkv, projection, attention, down.
extern const std::array<const char *, kRecomputeGroups> kRecomputeGroupNames;

/// Groups by block; -1 stands for what lies in no block. The empty choice keeps everything.
class RecomputeChoice {
public:
  void add(int64_t layer, RecomputeGroup group) { masks[layer] |= 1u << unsigned(group); }
  void remove(int64_t layer, RecomputeGroup group);
  bool has(int64_t layer, RecomputeGroup group) const;
  bool isEmpty() const { return masks.empty(); }
  bool operator==(const RecomputeChoice &) const = default;

  /// As one word: "0-30=pointwise+mlp/31=pointwise"; "none" where it is empty.
  std::string text() const;
  /// Reads such a word; fails where it is none.
  static mlir::FailureOr<RecomputeChoice> parse(llvm::StringRef text);

private:
  std::map<int64_t, unsigned> masks; ///< never 0
};

} // namespace ztc
