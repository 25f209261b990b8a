// Matrix products of any type: as they lie where the processor has instructions for the type, else in panels that are
// widened to f32.
#pragma once
#include "runtime/Device/host/Matmul.h"
#include "runtime/Format/ScratchSizes.h"
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ztc {

/// Whether matrices of this type are multiplied as they are.
bool multipliesNatively(plan::DataType type);

/// How products of this narrow type are computed, in words: "bf16 products by AMX", "f16 products in f32
/// panels".
std::string productPath(plan::DataType type);

/// A product (or a batch of equal ones) whose narrow matrices, or fp8 codes, pass through f32: tiles of the output,
/// blocks of k one after the other, added up in f32 and rounded to nearest even once. A matrix that is f32 is read and
/// written where it lies. How it is cut depends on the problem alone: the bits are the same for any number of threads.
class WidenedMatmul {
public:
  /// `largest`: no tile is larger; panels have matmulScratchBytes(m, n, k, largest) per worker.
  static StatusOr<WidenedMatmul> prepare(MatmulCache &cache, const MatmulProblem &problem, ParallelMatmul::Batch batch,
                                         WidenedTile largest = {});
  /// The same of matrices of fp8 codes, whose sums are multiplied by a number that is known when the product runs. C is
  /// f32 where `problem.add`.
  static StatusOr<WidenedMatmul> prepareScaled(MatmulCache &cache, const MatmulProblem &problem);
  /// `panels`: for each worker `panelBytes`, one after the other. `scale`: of what prepareScaled has made, by which
  /// each sum is multiplied before it is rounded or added.
  void execute(ThreadPool &pool, const void *a, const void *b, ProductResult c, std::byte *panels, uint64_t panelBytes,
               float scale = 1) const;

private:
  /// A block of k: elements [begin, begin + depth), and its product for a tile.
  struct Block {
    uint64_t begin, depth;
    const Matmul *matmul;
  };
  struct Tile {
    uint64_t item, row, rows, column, columns;
    size_t blocks; ///< index into blocks_
  };
  void run(const Tile &tile, uint32_t worker, const void *a, const void *b, ProductResult c, std::byte *panels,
           float scale) const;
  static StatusOr<WidenedMatmul> prepare(MatmulCache &cache, const MatmulProblem &problem, ParallelMatmul::Batch batch,
                                         WidenedTile largest, bool scaled);
  StatusOr<std::vector<Block>> prepareBlocks(MatmulCache &cache, uint64_t rows, uint64_t columns) const;

  MatmulProblem problem_;
  ParallelMatmul::Batch batch_;
  WidenedTile size_; ///< of a whole tile
  std::vector<Tile> tiles_;
  std::vector<std::vector<Block>> blocks_; ///< by size of tile
  bool parallel_ = false;                  ///< worth waking the other workers
  bool scaled_ = false;                    ///< sums are multiplied by a number, in panels
};

/// Room for each product that is this one but for `size` (m or k), which is from 1 to what it is here, by
/// multiplyTile(). Where matrices are not multiplied as they lie, no more rows and columns than a WidenedTile has.
/// Fails (Unavailable) where the processor has no instructions for it.
Status reserveTiles(MatmulCache &cache, MatmulProblem problem, uint64_t MatmulProblem::*size);

/// A product in the calling thread, as `worker`, of sizes that are known only when it runs; reserveTiles() has been
/// told of it. Its bits are those of Product, and those of an element depend on k alone. `panels`: the worker's, of
/// matmulScratchBytes(m, n, k); f32 needs none.
void multiplyTile(const MatmulCache &cache, uint32_t worker, const MatmulProblem &problem, const void *a, const void *b,
                  void *c, std::byte *panels);

class Product {
public:
  static StatusOr<Product> prepare(MatmulCache &cache, const MatmulProblem &problem, ParallelMatmul::Batch batch);
  static StatusOr<Product> prepare(MatmulCache &cache, const MatmulProblem &problem) {
    return prepare(cache, problem, ParallelMatmul::Batch());
  }
  /// `panels` and `panelBytes` as WidenedMatmul takes them; f32 needs none.
  void execute(ThreadPool &pool, const void *a, const void *b, ProductResult c, std::byte *panels,
               uint64_t panelBytes) const {
    if (widens_)
      widened_.execute(pool, a, b, c, panels, panelBytes);
    else
      plain_.execute(pool, a, b, c);
  }

private:
  ParallelMatmul plain_;
  WidenedMatmul widened_;
  bool widens_ = false;
};

} // namespace ztc
