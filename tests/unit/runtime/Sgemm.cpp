#include "runtime/Device/host/Sgemm.h"
#include "runtime/Core/CpuFeatures.h"
#include "runtime/Device/host/Matmul.h"
#include <array>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <memory>
#include <random>
#include <vector>

namespace ztc {
namespace {

/// Of every instruction set that this processor has.
std::vector<const SgemmTiles *> allTiles() {
  std::vector<const SgemmTiles *> all;
  if (hostSupports("x86-64-v3"))
    all.push_back(&sgemmTilesAvx2());
  if (hostSupports("x86-64-v4"))
    all.push_back(&sgemmTilesAvx512());
  return all;
}

/// A product with operands of its own; rows are a little further apart than they are long.
struct Product {
  MatmulProblem problem;
  const SgemmTiles *tiles = sgemmTiles();
  std::mt19937 random{1};
  std::vector<float> a, b, before;

  Product(uint64_t m, uint64_t n, uint64_t k, bool transposeA, bool transposeB, bool add, float alpha) {
    problem.m = m;
    problem.n = n;
    problem.k = k;
    // Some rows of A lie so far apart that they share a set of the cache, and are copied.
    problem.lda = !transposeA && k == 1200 ? 2048 : (transposeA ? m : k) + 3;
    problem.ldb = (transposeB ? k : n) + 5;
    problem.ldc = n + 1;
    problem.transposeA = transposeA;
    problem.transposeB = transposeB;
    problem.add = add;
    problem.alpha = alpha;
    a = values((transposeA ? k : m) * problem.lda);
    b = values((transposeB ? n : k) * problem.ldb);
    before = values(m * problem.ldc);
  }

  std::vector<float> values(uint64_t count) {
    std::uniform_real_distribution<float> distribution(-1, 1);
    std::vector<float> result(count);
    for (float &x : result)
      x = distribution(random);
    return result;
  }
  float elementA(uint64_t i, uint64_t l) const {
    return a[problem.transposeA ? l * problem.lda + i : i * problem.lda + l];
  }
  float elementB(uint64_t l, uint64_t j) const {
    return b[problem.transposeB ? j * problem.ldb + l : l * problem.ldb + j];
  }

  /// The tile of C at (row, column); the whole result is `c`.
  void run(std::vector<float> &c, uint64_t row, uint64_t rows, uint64_t column, uint64_t columns) const {
    MatmulProblem tile = problem;
    tile.m = rows;
    tile.n = columns;
    const SgemmPlan plan(tile, *tiles);
    std::vector<std::byte> memory(sgemmScratchBytes(plan) + 64);
    void *scratch = memory.data();
    size_t room = memory.size();
    std::align(64, sgemmScratchBytes(plan), scratch, room);
    sgemm(plan, a.data() + row * (problem.transposeA ? 1 : problem.lda),
          b.data() + column * (problem.transposeB ? problem.ldb : 1), c.data() + row * problem.ldc + column, scratch);
  }
  std::vector<float> run() const {
    std::vector<float> c = before;
    run(c, 0, problem.m, 0, problem.n);
    return c;
  }
};

class Sgemm : public testing::Test {
protected:
  void SetUp() override {
    if (!hostSupports("x86-64-v3"))
      GTEST_SKIP() << "the kernels need AVX2 and FMA";
  }
};

TEST_F(Sgemm, AgreesWithThreeLoops) {
  const std::vector<std::array<uint64_t, 3>> sizes = {{1, 1, 1},     {6, 16, 8},      {7, 17, 9},      {13, 48, 385},
                                                      {96, 784, 40}, {101, 800, 391}, {200, 30, 1200}, {5, 33, 2}};
  for (auto [m, n, k] : sizes)
    for (bool transposeA : {false, true})
      for (bool transposeB : {false, true})
        for (bool add : {false, true}) {
          Product product(m, n, k, transposeA, transposeB, add, add ? 0.375f : 1);
          const std::vector<float> c = product.run();
          for (const SgemmTiles *tiles : allTiles()) {
            product.tiles = tiles;
            EXPECT_EQ(0, std::memcmp(c.data(), product.run().data(), c.size() * sizeof(float)))
                << "tiles of " << tiles->rows << " rows have other bits";
          }
          double worst = 0;
          for (uint64_t i = 0; i < m; ++i) {
            for (uint64_t j = 0; j < n; ++j) {
              double sum = 0;
              for (uint64_t l = 0; l < k; ++l)
                sum += double(product.elementA(i, l)) * product.elementB(l, j);
              double want = product.problem.alpha * sum + (add ? product.before[i * product.problem.ldc + j] : 0);
              worst = std::max(worst, std::abs(want - c[i * product.problem.ldc + j]));
            }
            EXPECT_EQ(c[i * product.problem.ldc + n], product.before[i * product.problem.ldc + n]) << "past row " << i;
          }
          EXPECT_LT(worst, 2e-6 * std::sqrt(double(k)))
              << m << "x" << n << "x" << k << " transposes " << transposeA << transposeB << " add " << add;
        }
}

TEST_F(Sgemm, BitsDoNotDependOnTheTile) {
  for (const SgemmTiles *tiles : allTiles())
    for (bool transposeA : {false, true})
      for (bool transposeB : {false, true}) {
        Product product(131, 210, 777, transposeA, transposeB, true, 0.7f);
        product.tiles = tiles;
        std::vector<float> whole = product.run(), pieces = product.before;
        for (auto [row, rows] : {std::array<uint64_t, 2>{0, 50}, {50, 12}, {62, 69}})
          for (auto [column, columns] : {std::array<uint64_t, 2>{0, 64}, {64, 31}, {95, 115}})
            product.run(pieces, row, rows, column, columns);
        EXPECT_EQ(0, std::memcmp(whole.data(), pieces.data(), whole.size() * sizeof(float)))
            << "transposes " << transposeA << transposeB << ", tiles of " << tiles->rows << " rows";
      }
}

TEST_F(Sgemm, ARowHasTheSameBitsAloneAndAmongOthers) {
  for (bool transposeA : {false, true})
    for (bool transposeB : {false, true})
      for (bool add : {false, true}) {
        Product product(40, 210, 777, transposeA, transposeB, add, 0.7f);
        std::vector<float> whole = product.run(), few = product.before;
        for (const SgemmTiles *tiles : allTiles()) {
          product.tiles = tiles;
          few = product.before;
          for (auto [row, rows] : {std::array<uint64_t, 2>{0, 1}, {1, 2}, {3, 3}, {6, 4}, {10, 6}, {16, 11}, {27, 13}})
            for (auto [column, columns] : {std::array<uint64_t, 2>{0, 64}, {64, 31}, {95, 115}})
              product.run(few, row, rows, column, columns);
          EXPECT_EQ(0, std::memcmp(whole.data(), few.data(), whole.size() * sizeof(float)))
              << "transposes " << transposeA << transposeB << " add " << add << ", tiles of " << tiles->rows << " rows";
        }
      }
}

/// Blocks of queries as attention has them: the first ones, some after others, and keys in several pieces of k.
const std::vector<std::array<uint64_t, 2>> kQueriesAndDiagonals = {{64, 0}, {37, 0}, {50, 78}, {700, 23}};

TEST_F(Sgemm, ScoresPastTheDiagonalAreLeftOut) {
  for (const SgemmTiles *tiles : allTiles())
    for (auto [queries, diagonal] : kQueriesAndDiagonals) {
      const uint64_t keys = queries + diagonal;
      Product product(queries, keys, 24, false, true, false, 0.5f);
      product.tiles = tiles;
      const std::vector<float> whole = product.run();
      product.problem.causal = Causal::Scores;
      product.problem.diagonal = diagonal;
      const std::vector<float> c = product.run();
      uint64_t untouched = 0;
      for (uint64_t i = 0; i < queries; ++i)
        for (uint64_t j = 0; j < keys; ++j) {
          const uint64_t at = i * product.problem.ldc + j;
          if (j <= i + diagonal)
            EXPECT_EQ(c[at], whole[at]) << i << ", " << j;
          else
            untouched += c[at] == product.before[at];
        }
      EXPECT_GT(untouched + (tiles->rows + tiles->columns) * queries, queries * (queries - 1) / 2)
          << "a tile of " << tiles->rows << " rows past the diagonal is computed";
    }
}

TEST_F(Sgemm, ZerosPastTheDiagonalAreLeftOut) {
  for (const SgemmTiles *tiles : allTiles())
    for (auto [queries, diagonal] : kQueriesAndDiagonals)
      for (bool transposed : {false, true})
        for (bool add : {false, true}) {
          const uint64_t keys = queries + diagonal;
          Product product(transposed ? keys : queries, 24, transposed ? queries : keys, transposed, false, add, 1);
          product.tiles = tiles;
          for (uint64_t i = 0; i < queries; ++i)
            for (uint64_t j = i + diagonal + 1; j < keys; ++j)
              product.a[i * product.problem.lda + j] = 0;
          const std::vector<float> whole = product.run();
          product.problem.causal = transposed ? Causal::LeftTransposed : Causal::Left;
          product.problem.diagonal = diagonal;
          const std::vector<float> c = product.run();
          EXPECT_EQ(0, std::memcmp(whole.data(), c.data(), c.size() * sizeof(float)))
              << queries << " queries, diagonal " << diagonal << ", transposed " << transposed << ", add " << add;
        }
}

TEST_F(Sgemm, BitsDoNotDependOnThreads) {
  // One block; several of columns; several of k; rows for fewer workers than there are.
  const std::vector<std::array<uint64_t, 3>> sizes = {{131, 210, 100}, {75, 1100, 900}, {40, 400, 4100},
                                                      {20, 800, 64},   {1, 1500, 900},  {5, 800, 4100}};
  for (auto [m, n, k] : sizes)
    for (bool transposeA : {false, true}) {
      const Product product(m, n, k, transposeA, !transposeA, transposeA, 0.7f);
      const std::vector<float> want = product.run();
      for (uint32_t threads : {1u, 2u, 3u, 7u}) {
        MatmulCache cache(threads);
        ThreadPool pool(threads);
        auto parallel = ParallelMatmul::prepare(cache, product.problem);
        ASSERT_TRUE(parallel.isOk()) << parallel.status().message();
        for (int repetition = 0; repetition < 2; ++repetition) {
          std::vector<float> c = product.before;
          parallel->execute(pool, product.a.data(), product.b.data(), c.data());
          EXPECT_EQ(0, std::memcmp(want.data(), c.data(), want.size() * sizeof(float)))
              << m << "x" << n << "x" << k << " transposes " << transposeA << " threads " << threads;
        }
      }
    }
}

} // namespace
} // namespace ztc
