#include "runtime/Device/host/Matmul.h"
#include "runtime/Device/host/AmxGemmTiles.h"
#include "runtime/Format/PlanValidator.h"
#include <algorithm>
#include <cstdlib>
#include <fmt/format.h>
#include <type_traits>
#include <utility>

namespace ztc {

bool multipliesAsStored(const MatmulProblem &problem) {
  const auto all = [&](plan::DataType type) { return problem.typeA == type && problem.typeB == type; };
  if (all(plan::F32))
    return problem.typeC == plan::F32;
  return all(plan::BF16) && problem.typeC != plan::F16 && hasBf16Gemm();
}

Bf16Instructions bf16Instructions() {
  return hasAmxGemm() ? Bf16Instructions::Amx : hasBf16Gemm() ? Bf16Instructions::Avx512 : Bf16Instructions::None;
}

MatmulPlan MatmulCache::plan(const MatmulProblem &problem) const {
  if (problem.typeA == plan::F32)
    return SgemmPlan(problem);
  if (instructions_ == Bf16Instructions::Amx)
    return AmxGemmPlan(problem);
  return Bf16GemmPlan(problem);
}

uint64_t MatmulCache::rowGrain(const MatmulProblem &problem) const {
  constexpr uint64_t kOfOthers = 12;
  return problem.typeA == plan::BF16 && instructions_ == Bf16Instructions::Amx ? AmxTiles::kRows : kOfOthers;
}

/// What a plan's functions take operands as.
template <class Plan> using ElementOf = std::conditional_t<std::is_same_v<Plan, SgemmPlan>, float, uint16_t>;

/// Whether B's panels are packed one by one, because rows are too few to repay more.
static bool hasFewRows(const MatmulProblem &problem) {
  return problem.m < SgemmPlan::kFewRows;
}

Matmul::Matmul(const MatmulCache &cache, const MatmulProblem &problem) : cache_(cache), plan_(cache.plan(problem)) {}

static uint64_t scratchBytesOf(const MatmulPlan &any) {
  if (const auto *plan = std::get_if<SgemmPlan>(&any))
    return sgemmScratchBytes(*plan);
  if (const auto *plan = std::get_if<Bf16GemmPlan>(&any))
    return bf16GemmScratchBytes(*plan);
  return amxGemmScratchBytes(std::get<AmxGemmPlan>(any));
}

static void multiply(const MatmulPlan &any, const void *a, const void *b, ProductResult c, std::byte *scratch) {
  if (const auto *plan = std::get_if<SgemmPlan>(&any))
    return sgemm(*plan, static_cast<const float *>(a), static_cast<const float *>(b), static_cast<float *>(c.c),
                 scratch);
  const auto *left = static_cast<const uint16_t *>(a), *right = static_cast<const uint16_t *>(b);
  if (const auto *plan = std::get_if<Bf16GemmPlan>(&any))
    return bf16Gemm(*plan, left, right, c, scratch);
  amxGemm(std::get<AmxGemmPlan>(any), left, right, c, scratch);
}

uint64_t Matmul::scratchpadBytes() const {
  return scratchBytesOf(plan_);
}

void Matmul::execute(uint32_t worker, const void *a, const void *b, ProductResult c) const {
  multiply(plan_, a, b, c, cache_.scratchpad(worker));
}

/// Scratch is made in pages.
static constexpr uint64_t kScratchGrain = 4096;

void MatmulCache::FreeDeleter::operator()(void *p) const {
  std::free(p);
}

Status MatmulCache::check(const MatmulProblem &problem) {
  if (!sgemmTiles())
    return unavailable("matrix products need a processor with AVX2 and FMA (x86-64-v3)");
  if (!multipliesAsStored(problem))
    return internalError(
        fmt::format("no product of {} by {} as they lie", dataTypeName(problem.typeA), dataTypeName(problem.typeB)));
  return Status::ok();
}

Status MatmulCache::reserve(const MatmulProblem &problem) {
  ZTC_RETURN_IF_ERROR(check(problem));
  return growScratchpads(scratchBytesOf(plan(problem)));
}

Status MatmulCache::reserveUpTo(MatmulProblem problem, uint64_t MatmulProblem::*size) {
  ZTC_RETURN_IF_ERROR(check(problem));
  const uint64_t largest = std::exchange(problem.*size, 0);
  uint64_t &reserved = reservedUpTo_[problem], bytes = 0;
  // A smaller product may want more: how a size is cut depends on it.
  while (reserved < largest) {
    problem.*size = ++reserved;
    bytes = std::max(bytes, scratchBytesOf(plan(problem)));
  }
  return growScratchpads(bytes);
}

void MatmulCache::execute(uint32_t worker, const MatmulProblem &problem, const void *a, const void *b, void *c) const {
  multiply(plan(problem), a, b, c, scratchpad(worker));
}

StatusOr<const Matmul *> MatmulCache::get(const MatmulProblem &problem) {
  ZTC_RETURN_IF_ERROR(check(problem));
  std::unique_ptr<Matmul> &slot = products_[problem];
  if (slot)
    return slot.get();
  std::unique_ptr<Matmul> made(new Matmul(*this, problem));
  ZTC_RETURN_IF_ERROR(growScratchpads(made->scratchpadBytes()));
  slot = std::move(made);
  return slot.get();
}

Status MatmulCache::grow(Scratch &scratch, uint64_t bytes) {
  scratch.reset(static_cast<std::byte *>(std::aligned_alloc(kScratchGrain, bytes)));
  return scratch ? Status::ok()
                 : resourceExhausted(fmt::format("no memory for a product's scratch of {} bytes", bytes));
}

Status MatmulCache::growScratchpads(uint64_t bytes) {
  bytes = (bytes + kScratchGrain - 1) / kScratchGrain * kScratchGrain;
  if (bytes <= scratchpadBytes_)
    return Status::ok();
  scratchpadBytes_ = bytes;
  for (Scratch &scratchpad : scratchpads_)
    ZTC_RETURN_IF_ERROR(grow(scratchpad, bytes));
  return Status::ok();
}

Status MatmulCache::reserve(uint64_t packedBytes, uint64_t scratchBytes) {
  const uint64_t bytes = (packedBytes + kScratchGrain - 1) / kScratchGrain * kScratchGrain;
  if (bytes > packedBytes_) {
    packedBytes_ = bytes;
    ZTC_RETURN_IF_ERROR(grow(packed_, bytes));
  }
  return growScratchpads(scratchBytes);
}

namespace {

/// Below this many multiply-adds waking the other workers costs more than it saves (about 10 us of work).
constexpr uint64_t kSmallProduct = 1 << 18;
/// A tile has at least this many rows and columns, where the output has them.
constexpr uint64_t kSmallestSide = 64;

/// Into how many tiles an output is cut.
struct Tiling {
  uint64_t rows = 1, columns = 1;
};

/// How good a tiling is for `workers`, from 0 to 1: B is packed once for each tile of rows, and A, where it is
/// transposed, once for each of columns. More tiles than workers even out what else happens on the machine.
double quality(const MatmulProblem &problem, uint64_t batch, Tiling tiling, uint64_t workers) {
  constexpr double kPacking = 4, kUneven = 0.1;
  double packed = double(tiling.rows) / double(problem.m);
  if (problem.transposeA)
    packed += double(tiling.columns) / double(problem.n);
  uint64_t tiles = batch * tiling.rows * tiling.columns, rounds = (tiles + workers - 1) / workers;
  double busy = double(tiles) / double(rounds * workers);
  return busy / (1 + kPacking * packed) * (1 - kUneven * std::min(1.0, double(workers) / double(tiles)));
}

Tiling chooseTiling(const MatmulProblem &problem, uint64_t batch, uint64_t workers) {
  Tiling best;
  double bestQuality = quality(problem, batch, best, workers);
  uint64_t limit = 4 * workers;
  for (uint64_t rows = 1; rows <= limit && (rows == 1 || problem.m / rows >= kSmallestSide); ++rows)
    for (uint64_t columns = 1;
         rows * columns * batch <= limit && (columns == 1 || problem.n / columns >= kSmallestSide); ++columns)
      if (double q = quality(problem, batch, {rows, columns}, workers); q > bestQuality) {
        best = {rows, columns};
        bestQuality = q;
      }
  return best;
}

/// Whether workers pack a product's B together. They wait for each other at each block: f32 ones, whose B is cut along
/// k too, are tiles instead where there are several.
bool sharesB(const MatmulProblem &problem, uint64_t batch) {
  if (batch != 1 || hasFewRows(problem) || double(problem.m) * double(problem.n) * double(problem.k) < kSmallProduct)
    return false;
  return problem.typeA != plan::F32 || SgemmPlan(problem).blocks() == 1;
}

} // namespace

Status ParallelMatmul::prepareShared(MatmulCache &cache, const MatmulProblem &problem) {
  const uint64_t workers = cache.workers();
  shared_.emplace(Shared{cache.plan(problem)});
  // Columns are cut too where there are few rows: a panel of B is to be read from the first cache most of the time.
  constexpr uint64_t kRowsOfPiece = 72, kFewestRows = 24;
  if (problem.m < workers * kFewestRows) {
    shared_->rows = uint32_t(std::max<uint64_t>(1, problem.m / kRowsOfPiece));
    shared_->columns = uint32_t((workers + shared_->rows - 1) / shared_->rows);
  }
  cache_ = &cache;
  return std::visit([&](const auto &plan) { return cache.reserve(plan.packedBytes(), plan.scratchBytes()); },
                    shared_->plan);
}

template <class Plan>
void ParallelMatmul::executeShared(const Plan &plan, ThreadPool &pool, const void *a, const void *b,
                                   ProductResult c) const {
  using Element = ElementOf<Plan>;
  const auto *left = static_cast<const Element *>(a), *right = static_cast<const Element *>(b);
  std::byte *packed = cache_->packed();
  const uint64_t m = plan.problem().m;
  const uint64_t grain = (18 + plan.rowGrain() - 1) / plan.rowGrain() * plan.rowGrain(); // the pool gives out twice it
  for (size_t index = 0; index < plan.blocks(); ++index) {
    const typename Plan::Block block = plan.block(index);
    const uint64_t panels = plan.panels(block);
    pool.parallelFor(panels, 1,
                     [&](uint32_t, uint64_t begin, uint64_t end) { plan.pack(block, right, begin, end, packed); });
    if (shared_->columns == 1) {
      pool.parallelFor(m, grain, [&](uint32_t worker, uint64_t begin, uint64_t end) {
        plan.multiply(block, left, packed, c, {begin, end}, {0, panels}, cache_->scratchpad(worker));
      });
      continue;
    }
    pool.forEach(uint64_t(shared_->rows) * shared_->columns, [&](uint32_t worker, uint64_t i) {
      const WorkRange rows = splitRange(m, plan.rowGrain(), uint32_t(i % shared_->rows), shared_->rows);
      const WorkRange part = splitRange(panels, 1, uint32_t(i / shared_->rows), shared_->columns);
      plan.multiply(block, left, packed, c, rows, part, cache_->scratchpad(worker));
    });
  }
}

StatusOr<ParallelMatmul> ParallelMatmul::prepare(MatmulCache &cache, const MatmulProblem &problem, Batch batch) {
  ParallelMatmul result;
  if (sgemmTiles() && multipliesAsStored(problem) && sharesB(problem, batch.count)) {
    ZTC_RETURN_IF_ERROR(result.prepareShared(cache, problem));
    return result;
  }
  uint64_t bytesA = dataTypeBytes(problem.typeA), bytesB = dataTypeBytes(problem.typeB);
  result.bytesC_ = dataTypeBytes(problem.typeC);
  double products = double(problem.m) * double(problem.n) * double(problem.k) * double(batch.count);
  Tiling tiling;
  result.parallel_ = products >= kSmallProduct && cache.workers() > 1;
  if (products >= kSmallProduct)
    tiling = chooseTiling(problem, batch.count, cache.workers());
  // Whole register tiles: a rest in the last piece only.
  const uint64_t rowGrain = cache.rowGrain(problem);
  constexpr uint64_t kColumnGrain = 32;
  for (uint64_t item = 0; item < batch.count; ++item)
    for (uint32_t column = 0; column < tiling.columns; ++column)
      for (uint32_t row = 0; row < tiling.rows; ++row) {
        WorkRange rows = splitRange(problem.m, rowGrain, row, uint32_t(tiling.rows));
        WorkRange columns = splitRange(problem.n, kColumnGrain, column, uint32_t(tiling.columns));
        if (rows.empty() || columns.empty())
          continue;
        MatmulProblem tile = problem;
        tile.causal = Causal::None;
        tile.m = rows.end - rows.begin;
        tile.n = columns.end - columns.begin;
        ZTC_ASSIGN_OR_RETURN(const Matmul *matmul, cache.get(tile));
        uint64_t a = rows.begin * (problem.transposeA ? 1 : problem.lda);
        uint64_t b = columns.begin * (problem.transposeB ? problem.ldb : 1);
        uint64_t c = rows.begin * problem.ldc + columns.begin;
        result.tiles_.push_back({matmul, (a + item * batch.strideA) * bytesA, (b + item * batch.strideB) * bytesB,
                                 c + item * batch.strideC, columns.begin});
      }
  return result;
}

void ParallelMatmul::execute(ThreadPool &pool, const void *a, const void *b, ProductResult c) const {
  if (shared_)
    return std::visit([&](const auto &plan) { executeShared(plan, pool, a, b, c); }, shared_->plan);
  auto work = [&](uint32_t worker, size_t index) {
    const Tile &tile = tiles_[index];
    tile.matmul->execute(worker, static_cast<const std::byte *>(a) + tile.a, static_cast<const std::byte *>(b) + tile.b,
                         c.at(tile.c, tile.column, bytesC_));
  };
  if (parallel_)
    pool.forEach(tiles_.size(), work);
  else
    for (size_t index = 0; index < tiles_.size(); ++index)
      work(0, index);
}

} // namespace ztc
