#include "runtime/Device/host/Matmul.h"
#include "runtime/Format/PlanValidator.h"
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fmt/format.h>

namespace ztc {

static dnnl_data_type_t oneDnnType(plan::DataType type) {
  switch (type) {
  case plan::F32:
    return dnnl_f32;
  case plan::BF16:
    return dnnl_bf16;
  case plan::F16:
    return dnnl_f16;
  default:
    return dnnl_data_type_undef;
  }
}

/// Whether our own kernels run it: of any number of rows, so that a row has the same bits alone and among others.
static bool isOwn(const MatmulProblem &problem) {
  const bool isPlain = problem.typeA == plan::F32 && problem.typeB == plan::F32 && problem.typeC == plan::F32;
  return sgemmTiles() && isPlain;
}

Matmul::~Matmul() {
  for (PerWorker &worker : workers_)
    for (dnnl_memory_t memory : {worker.a, worker.b, worker.c, worker.scratchpad})
      if (memory)
        library_.dnnl_memory_destroy(memory);
  if (primitive_)
    library_.dnnl_primitive_destroy(primitive_);
}

Status Matmul::create(const MatmulProblem &problem, uint32_t workers) {
  if (isOwn(problem)) {
    own_.emplace(problem);
    implementation_ = "own";
    scratchpadBytes_ = sgemmScratchBytes(*own_);
    return Status::ok();
  }
  const OneDnn &dnnl = library_;
  // A primitive is made for the number of threads of the thread that makes it.
  dnnl.makeThreadSingle();
  auto fail = [&](const char *what, dnnl_status_t status) {
    return unavailable(fmt::format("{} cannot multiply ({}, {}) by ({}, {}) of type {} on this processor: {} says {}",
                                   dnnl.version, problem.m, problem.k, problem.k, problem.n,
                                   plan::DataType_Name(problem.typeA), what, int(status)));
  };
  auto describe = [&](dnnl_memory_desc_t &desc, uint64_t rows, uint64_t columns, uint64_t ld, bool transpose,
                      plan::DataType type) {
    dnnl_dims_t sizes = {dnnl_dim_t(rows), dnnl_dim_t(columns)};
    dnnl_dims_t strides = {transpose ? 1 : dnnl_dim_t(ld), transpose ? dnnl_dim_t(ld) : 1};
    return dnnl.dnnl_memory_desc_init_by_strides(&desc, 2, sizes, oneDnnType(type), strides);
  };
  dnnl_memory_desc_t a, b, c;
  dnnl_status_t status = describe(a, problem.m, problem.k, problem.lda, problem.transposeA, problem.typeA);
  if (status == dnnl_success)
    status = describe(b, problem.k, problem.n, problem.ldb, problem.transposeB, problem.typeB);
  if (status == dnnl_success)
    status = describe(c, problem.m, problem.n, problem.ldc, false, problem.typeC);
  dnnl_matmul_desc_t operation;
  if (status == dnnl_success)
    status = dnnl.dnnl_matmul_desc_init(&operation, &a, &b, nullptr, &c);
  if (status != dnnl_success)
    return fail("dnnl_matmul_desc_init", status);

  dnnl_primitive_attr_t attributes;
  status = dnnl.dnnl_primitive_attr_create(&attributes);
  if (status != dnnl_success)
    return fail("dnnl_primitive_attr_create", status);
  std::unique_ptr<dnnl_primitive_attr, dnnl_status_t (*)(dnnl_primitive_attr_t)> attributesOwner(
      attributes, dnnl.dnnl_primitive_attr_destroy);
  dnnl.dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user);
  if (problem.alpha != 1)
    status = dnnl.dnnl_primitive_attr_set_output_scales(attributes, 1, 0, &problem.alpha);
  if (status == dnnl_success && problem.add) {
    dnnl_post_ops_t postOps;
    status = dnnl.dnnl_post_ops_create(&postOps);
    if (status == dnnl_success) {
      dnnl.dnnl_post_ops_append_sum(postOps, 1.0f);
      status = dnnl.dnnl_primitive_attr_set_post_ops(attributes, postOps);
      dnnl.dnnl_post_ops_destroy(postOps);
    }
  }
  if (status != dnnl_success)
    return fail("dnnl_primitive_attr_set", status);

  dnnl_primitive_desc_t descriptor;
  status = dnnl.dnnl_primitive_desc_create(&descriptor, &operation, attributes, dnnl.engine, nullptr);
  if (status != dnnl_success)
    return fail("dnnl_primitive_desc_create", status);
  std::unique_ptr<dnnl_primitive_desc, dnnl_status_t (*)(dnnl_primitive_desc_t)> descriptorOwner(
      descriptor, dnnl.dnnl_primitive_desc_destroy);
  const char *implementation = nullptr;
  if (dnnl.dnnl_primitive_desc_query(descriptor, dnnl_query_impl_info_str, 0, &implementation) == dnnl_success &&
      implementation)
    implementation_ = implementation;
  const dnnl_memory_desc_t *scratchpad = dnnl.dnnl_primitive_desc_query_md(descriptor, dnnl_query_scratchpad_md, 0);
  scratchpadBytes_ = scratchpad ? dnnl.dnnl_memory_desc_get_size(scratchpad) : 0;
  status = dnnl.dnnl_primitive_create(&primitive_, descriptor);
  if (status != dnnl_success)
    return fail("dnnl_primitive_create", status);

  workers_.resize(workers);
  for (PerWorker &worker : workers_) {
    auto makeMemory = [&](dnnl_memory_t &memory, const dnnl_memory_desc_t &desc) {
      if (status == dnnl_success)
        status = dnnl.dnnl_memory_create(&memory, &desc, dnnl.engine, DNNL_MEMORY_NONE);
    };
    makeMemory(worker.a, a);
    makeMemory(worker.b, b);
    makeMemory(worker.c, c);
    if (scratchpadBytes_)
      makeMemory(worker.scratchpad, *scratchpad);
  }
  return status == dnnl_success ? Status::ok() : fail("dnnl_memory_create", status);
}

bool Matmul::execute(uint32_t worker, const void *a, const void *b, void *c) const {
  if (own_) {
    sgemm(*own_, static_cast<const float *>(a), static_cast<const float *>(b), static_cast<float *>(c),
          cache_.scratchpad(worker));
    return true;
  }
  const OneDnn &dnnl = library_;
  dnnl.makeThreadSingle();
  const PerWorker &memory = workers_[worker];
  bool good = dnnl.dnnl_memory_set_data_handle(memory.a, const_cast<void *>(a)) == dnnl_success;
  good &= dnnl.dnnl_memory_set_data_handle(memory.b, const_cast<void *>(b)) == dnnl_success;
  good &= dnnl.dnnl_memory_set_data_handle(memory.c, c) == dnnl_success;
  dnnl_exec_arg_t arguments[4] = {{DNNL_ARG_SRC, memory.a}, {DNNL_ARG_WEIGHTS, memory.b}, {DNNL_ARG_DST, memory.c}};
  int count = 3;
  if (memory.scratchpad) {
    good &= dnnl.dnnl_memory_set_data_handle(memory.scratchpad, cache_.scratchpad(worker)) == dnnl_success;
    arguments[count++] = {DNNL_ARG_SCRATCHPAD, memory.scratchpad};
  }
  return good && dnnl.dnnl_primitive_execute(primitive_, cache_.streams_[worker], count, arguments) == dnnl_success;
}

/// Scratch is made in pages.
static constexpr uint64_t kScratchGrain = 4096;

void MatmulCache::FreeDeleter::operator()(void *p) const {
  std::free(p);
}

MatmulCache::MatmulCache(const OneDnn &library, uint32_t workers)
    : library_(library), streams_(workers), scratchpads_(workers) {
  for (dnnl_stream_t &stream : streams_)
    if (library.dnnl_stream_create(&stream, library.engine, dnnl_stream_default_flags) != dnnl_success)
      stream = nullptr;
}

MatmulCache::~MatmulCache() {
  primitives_.clear();
  for (dnnl_stream_t stream : streams_)
    if (stream)
      library_.dnnl_stream_destroy(stream);
}

StatusOr<const Matmul *> MatmulCache::get(const MatmulProblem &problem) {
  std::unique_ptr<Matmul> &slot = primitives_[problem];
  if (slot)
    return slot.get();
  std::unique_ptr<Matmul> made(new Matmul(library_, *this));
  ZTC_RETURN_IF_ERROR(made->create(problem, workers()));
  ZTC_RETURN_IF_ERROR(growScratchpads(made->scratchpadBytes_));
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

Status MatmulCache::reserve(const SgemmPlan &plan) {
  const uint64_t bytes = (plan.packedBytes() + kScratchGrain - 1) / kScratchGrain * kScratchGrain;
  if (bytes > packedBytes_) {
    packedBytes_ = bytes;
    ZTC_RETURN_IF_ERROR(grow(packed_, bytes));
  }
  return growScratchpads(plan.scratchBytes());
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

/// The number of workers that a product is cut for. oneDNN's bits depend on the size of a piece, so all T of one class
/// share their pieces, and with them their bits: 1 and 2, 3 to 8, 9 to 32, and so on.
uint64_t workerClass(uint32_t workers) {
  uint64_t size = 2;
  while (size < workers)
    size *= 4;
  return size;
}

/// What is known of the library's sgemm: it packs both operands of a call, which costs 1/rows + 1/columns of the work;
/// where that sum exceeds a threshold of its own it reads them where they lie, which is slower.
double librarySpeed(const MatmulProblem &problem, Tiling tiling) {
  constexpr double kReadsInPlace = 0.0038, kInPlaceSpeed = 0.9, kPacking = 10;
  double sides = double(tiling.rows) / double(problem.m) + double(tiling.columns) / double(problem.n);
  return (sides < kReadsInPlace ? 1 : kInPlaceSpeed) / (1 + kPacking * sides);
}

/// Our own kernels pack B once for each tile of rows, and A, where it is transposed, once for each of columns.
double ownSpeed(const MatmulProblem &problem, Tiling tiling) {
  constexpr double kPacking = 4;
  double packed = double(tiling.rows) / double(problem.m);
  if (problem.transposeA)
    packed += double(tiling.columns) / double(problem.n);
  return 1 / (1 + kPacking * packed);
}

/// How good a tiling is for `workers`, from 0 to 1. More tiles than workers even out what else happens on the machine.
double quality(const MatmulProblem &problem, uint64_t batch, Tiling tiling, uint64_t workers) {
  constexpr double kUneven = 0.1;
  double speed = isOwn(problem) ? ownSpeed(problem, tiling) : librarySpeed(problem, tiling);
  uint64_t tiles = batch * tiling.rows * tiling.columns, rounds = (tiles + workers - 1) / workers;
  double busy = double(tiles) / double(rounds * workers);
  return speed * busy * (1 - kUneven * std::min(1.0, double(workers) / double(tiles)));
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

} // namespace

Status ParallelMatmul::prepareOwn(MatmulCache &cache, const MatmulProblem &problem) {
  const uint64_t workers = cache.workers();
  own_.emplace(Own{SgemmPlan(problem)});
  // Columns are cut too where there are few rows: a panel of B is to be read from the first cache most of the time.
  constexpr uint64_t kRowsOfPiece = 72, kFewestRows = 24;
  if (problem.m < workers * kFewestRows) {
    own_->rows = uint32_t(std::max<uint64_t>(1, problem.m / kRowsOfPiece));
    own_->columns = uint32_t((workers + own_->rows - 1) / own_->rows);
  }
  cache_ = &cache;
  return cache.reserve(own_->plan);
}

void ParallelMatmul::executeOwn(ThreadPool &pool, const float *a, const float *b, float *c) const {
  const SgemmPlan &plan = own_->plan;
  auto *packed = reinterpret_cast<float *>(cache_->packed());
  const SgemmPlan::Block block = plan.block(0);
  const uint64_t panels = plan.panels(block);
  pool.parallelFor(panels, 1, [&](uint32_t, uint64_t begin, uint64_t end) { plan.pack(block, b, begin, end, packed); });
  const auto scratch = [&](uint32_t worker) { return reinterpret_cast<float *>(cache_->scratchpad(worker)); };
  const uint64_t m = plan.problem().m;
  const uint64_t kGrain = (18 + plan.rowGrain() - 1) / plan.rowGrain() * plan.rowGrain(); // the pool gives out twice it
  if (own_->columns == 1) {
    pool.parallelFor(m, kGrain, [&](uint32_t worker, uint64_t begin, uint64_t end) {
      plan.multiply(block, a, packed, c, {begin, end}, {0, panels}, scratch(worker));
    });
    return;
  }
  pool.forEach(uint64_t(own_->rows) * own_->columns, [&](uint32_t worker, uint64_t i) {
    const WorkRange rows = splitRange(m, plan.rowGrain(), uint32_t(i % own_->rows), own_->rows);
    const WorkRange part = splitRange(panels, 1, uint32_t(i / own_->rows), own_->columns);
    plan.multiply(block, a, packed, c, rows, part, scratch(worker));
  });
}

StatusOr<ParallelMatmul> ParallelMatmul::prepare(MatmulCache &cache, const MatmulProblem &problem, Batch batch) {
  ParallelMatmul result;
  // More than one block would make the workers wait for each other at each; so large a B is packed tile by tile.
  if (isOwn(problem) && batch.count == 1 && !SgemmPlan(problem).hasFewRows() && SgemmPlan(problem).blocks() == 1 &&
      double(problem.m) * double(problem.n) * double(problem.k) >= kSmallProduct) {
    ZTC_RETURN_IF_ERROR(result.prepareOwn(cache, problem));
    return result;
  }
  uint64_t bytesA = dataTypeBytes(problem.typeA), bytesB = dataTypeBytes(problem.typeB),
           bytesC = dataTypeBytes(problem.typeC);
  double products = double(problem.m) * double(problem.n) * double(problem.k) * double(batch.count);
  Tiling tiling;
  result.parallel_ = products >= kSmallProduct && cache.workers() > 1;
  if (products >= kSmallProduct)
    tiling = chooseTiling(problem, batch.count, workerClass(cache.workers()));
  // Whole register tiles: a rest in the last piece only.
  const uint64_t rowGrain = isOwn(problem) ? 12 : 8, columnGrain = 16;
  for (uint64_t item = 0; item < batch.count; ++item)
    for (uint32_t column = 0; column < tiling.columns; ++column)
      for (uint32_t row = 0; row < tiling.rows; ++row) {
        WorkRange rows = splitRange(problem.m, rowGrain, row, uint32_t(tiling.rows));
        WorkRange columns = splitRange(problem.n, columnGrain, column, uint32_t(tiling.columns));
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
                                 (c + item * batch.strideC) * bytesC});
      }
  return result;
}

Status ParallelMatmul::execute(ThreadPool &pool, const void *a, const void *b, void *c) const {
  if (own_) {
    executeOwn(pool, static_cast<const float *>(a), static_cast<const float *>(b), static_cast<float *>(c));
    return Status::ok();
  }
  std::atomic<bool> good{true};
  auto work = [&](uint32_t worker, size_t index) {
    const Tile &tile = tiles_[index];
    if (!tile.matmul->execute(worker, static_cast<const std::byte *>(a) + tile.a,
                              static_cast<const std::byte *>(b) + tile.b, static_cast<std::byte *>(c) + tile.c))
      good.store(false, std::memory_order_relaxed);
  };
  if (parallel_)
    pool.forEach(tiles_.size(), work);
  else
    for (size_t index = 0; index < tiles_.size(); ++index)
      work(0, index);
  return good.load(std::memory_order_relaxed) ? Status::ok()
                                              : internalError("oneDNN failed to execute a matrix product");
}

} // namespace ztc
