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

Matmul::~Matmul() {
  for (PerWorker &worker : workers_)
    for (dnnl_memory_t memory : {worker.a, worker.b, worker.c, worker.scratchpad})
      if (memory)
        library_.dnnl_memory_destroy(memory);
  if (primitive_)
    library_.dnnl_primitive_destroy(primitive_);
}

Status Matmul::create(const MatmulProblem &problem, uint32_t workers) {
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
    status = describe(b, problem.k, problem.n, problem.ldb, problem.transposeB, problem.typeA);
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
  const OneDnn &dnnl = library_;
  dnnl.makeThreadSingle();
  const PerWorker &memory = workers_[worker];
  bool good = dnnl.dnnl_memory_set_data_handle(memory.a, const_cast<void *>(a)) == dnnl_success;
  good &= dnnl.dnnl_memory_set_data_handle(memory.b, const_cast<void *>(b)) == dnnl_success;
  good &= dnnl.dnnl_memory_set_data_handle(memory.c, c) == dnnl_success;
  dnnl_exec_arg_t arguments[4] = {{DNNL_ARG_SRC, memory.a}, {DNNL_ARG_WEIGHTS, memory.b}, {DNNL_ARG_DST, memory.c}};
  int count = 3;
  if (memory.scratchpad) {
    good &= dnnl.dnnl_memory_set_data_handle(memory.scratchpad, cache_.scratchpads_[worker].get()) == dnnl_success;
    arguments[count++] = {DNNL_ARG_SCRATCHPAD, memory.scratchpad};
  }
  return good && dnnl.dnnl_primitive_execute(primitive_, cache_.streams_[worker], count, arguments) == dnnl_success;
}

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
  if (made->scratchpadBytes_ > scratchpadBytes_) {
    scratchpadBytes_ = (made->scratchpadBytes_ + 4095) / 4096 * 4096;
    for (auto &scratchpad : scratchpads_) {
      scratchpad.reset(static_cast<std::byte *>(std::aligned_alloc(4096, scratchpadBytes_)));
      if (!scratchpad)
        return resourceExhausted(
            fmt::format("no memory for oneDNN's scratchpad of {} bytes per thread", scratchpadBytes_));
    }
  }
  slot = std::move(made);
  return slot.get();
}

/// Below this many multiply-adds waking the other workers costs more than it saves (about 10 us of work).
static constexpr uint64_t kSmallProduct = 1 << 18;
/// Pieces are multiples of the register tiles of oneDNN's kernels (24 and 48 columns, 4 to 8 rows), so that only the
/// last has a rest.
static constexpr uint64_t kRowGrain = 8, kColumnGrain = 48;

StatusOr<ParallelMatmul> ParallelMatmul::prepare(MatmulCache &cache, const MatmulProblem &problem, Batch batch) {
  ParallelMatmul result;
  uint64_t bytesA = dataTypeBytes(problem.typeA), bytesC = dataTypeBytes(problem.typeC);
  uint32_t workers = cache.workers();
  double products = double(problem.m) * double(problem.n) * double(problem.k) * double(batch.count);
  if (products < kSmallProduct)
    workers = 1;
  // A batch that divides evenly goes by whole products. Else the longer side of the output is cut: the other operand,
  // which every worker reads in full, is the smaller one.
  bool byBatch = batch.count >= workers && (batch.count % workers == 0 || batch.count >= 4 * workers);
  bool byRows = problem.m >= problem.n;
  result.pieces_.resize(workers);
  for (uint32_t worker = 0; worker < workers; ++worker) {
    WorkRange items = byBatch ? splitRange(batch.count, 1, worker, workers) : WorkRange{0, batch.count};
    WorkRange rows = {0, problem.m}, columns = {0, problem.n};
    if (!byBatch && byRows)
      rows = splitRange(problem.m, kRowGrain, worker, workers);
    else if (!byBatch)
      columns = splitRange(problem.n, kColumnGrain, worker, workers);
    if (items.empty() || rows.empty() || columns.empty())
      continue;
    MatmulProblem piece = problem;
    piece.m = rows.end - rows.begin;
    piece.n = columns.end - columns.begin;
    ZTC_ASSIGN_OR_RETURN(const Matmul *matmul, cache.get(piece));
    uint64_t a = rows.begin * (problem.transposeA ? 1 : problem.lda);
    uint64_t b = columns.begin * (problem.transposeB ? problem.ldb : 1);
    uint64_t c = rows.begin * problem.ldc + columns.begin;
    for (uint64_t item = items.begin; item < items.end; ++item)
      result.pieces_[worker].push_back({matmul, (a + item * batch.strideA) * bytesA,
                                        (b + item * batch.strideB) * bytesA, (c + item * batch.strideC) * bytesC});
  }
  return result;
}

Status ParallelMatmul::execute(ThreadPool &pool, const void *a, const void *b, void *c) const {
  std::atomic<bool> good{true};
  auto work = [&](uint32_t worker) {
    for (const Piece &piece : pieces_[worker])
      if (!piece.matmul->execute(worker, static_cast<const std::byte *>(a) + piece.a,
                                 static_cast<const std::byte *>(b) + piece.b, static_cast<std::byte *>(c) + piece.c))
        good.store(false, std::memory_order_relaxed);
  };
  if (pieces_.size() == 1)
    work(0);
  else
    pool.forEachWorker(work);
  return good.load(std::memory_order_relaxed) ? Status::ok()
                                              : internalError("oneDNN failed to execute a matrix product");
}

} // namespace ztc
