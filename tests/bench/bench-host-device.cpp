// GFLOP/s of the host device's library calls at the shapes of small Llamas. Usage: bench-host-device [threads]
// [linear|rows|experts|attention|loss|all] [f32|bf16|f16] [instruction set, as --instruction-set names it] The service
// kernels are empty: what is timed are the matrix products, their slicing and the thread pool.
#include "runtime/Core/CpuFeatures.h"
#include "runtime/Device/host/HostDevice.h"
#include "runtime/Executor/Executor.h"
#include "runtime/Format/ScratchSizes.h"
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fmt/format.h>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {
using namespace ztc;

void nothing(void *const *, const int64_t *, int64_t, int64_t) {}

/// One program of one step over freshly made slots.
struct Bench {
  plan::Plan plan;
  plan::Step *step;
  uint32_t threads;
  std::vector<int32_t> starts; ///< of groups, in operand 2; none: no groups
  /// What the tensors are stored in.
  inline static plan::DataType type = plan::F32;

  explicit Bench(uint32_t threads) : threads(threads) {
    plan.add_kernels()->set_name("nothing");
    plan::Program *program = plan.add_programs();
    program->set_name("microstep");
    step = program->add_steps();
    step->set_name("step");
  }
  void operand(uint64_t floats) {
    plan.add_slots()->mutable_size()->set_elements(floats);
    step->add_operands()->set_slot(uint32_t(plan.slots_size() - 1));
  }
  /// Scratch of all threads; none where the tensors are f32.
  void panels(uint64_t bytesPerThread) {
    if (type != plan::F32)
      operand(bytesPerThread / 4 * threads);
  }

  /// Prints the best of the repetitions: what the machine can do when nobody else uses it.
  void run(const std::string &name, double flops) {
    auto fail = [&](const Status &status) { std::printf("%-44s %s\n", name.c_str(), status.message().c_str()); };
    auto device = createHostDevice({threads, {{"nothing", nothing}}});
    if (!device.isOk())
      return fail(device.status());
    MemoryPlan memory;
    for (const plan::Slot &slot : plan.slots()) {
      memory.slots.push_back({memory.arenaBytes, slot.size().elements() * 4});
      memory.arenaBytes += (slot.size().elements() * 4 + 255) / 256 * 256;
    }
    auto executor = Executor::create(plan, memory, {1, 1, threads}, 0, **device);
    if (!executor.isOk())
      return fail(executor.status());
    auto arena = (*device)->memory().allocateArena(memory.arenaBytes);
    if (!arena.isOk())
      return fail(arena.status());
    if (Status status = (*executor)->initialize(**arena); !status.isOk())
      return fail(status);
    float *values = reinterpret_cast<float *>((*arena)->base());
    const float step = type == plan::F32 ? 0x1p-4f : 0; // in a narrow type the bits of floats are any numbers
    for (uint64_t i = 0; i < memory.arenaBytes / 4; ++i)
      values[i] = float(i % 17) * step;
    if (!starts.empty())
      std::memcpy((*arena)->base() + memory.slots[2].offset, starts.data(), starts.size() * sizeof(int32_t));
    // On a machine with other users wall time says little: the processor time of one thread is the better measure
    // there.
    auto processorSeconds = [] { return double(std::clock()) / CLOCKS_PER_SEC; };
    double best = 1e9, bestProcessor = 1e9, total = 0;
    for (int i = 0; i < 5 || (total < 0.3 && i < 2000); ++i) {
      double processorBegin = processorSeconds();
      auto begin = std::chrono::steady_clock::now();
      if (Status status = (*executor)->execute("microstep"); !status.isOk())
        return fail(status);
      double processor = processorSeconds() - processorBegin;
      double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      best = std::min(best, seconds);
      bestProcessor = std::min(bestProcessor, processor);
      total += seconds;
    }
    std::printf("%-44s %9.1f us %7.1f GFLOP/s, per processor second %7.1f\n", name.c_str(), best * 1e6,
                flops / best * 1e-9, flops / bestProcessor * 1e-9);
    std::fflush(stdout);
  }
};

struct Model {
  const char *name;
  uint64_t batch, seq, width, inner, heads, kvHeads, dim, vocabulary;
};

void gemm(uint32_t threads, const std::string &name, uint64_t m, uint64_t n, uint64_t k, bool transposeA,
          bool transposeB) {
  Bench bench(threads);
  for (uint64_t floats : {m * k, k * n, m * n})
    bench.operand(floats);
  bench.panels(matmulScratchBytes(m, n, k));
  plan::Gemm &call = *bench.step->mutable_gemm();
  call.set_m(m);
  call.set_n(n);
  call.set_k(k);
  call.set_lda(transposeA ? m : k);
  call.set_ldb(transposeB ? k : n);
  call.set_ldc(n);
  call.set_transpose_a(transposeA);
  call.set_transpose_b(transposeB);
  call.set_alpha(1);
  call.set_type_a(Bench::type);
  call.set_type_c(transposeA ? plan::F32 : Bench::type); // gradients of weights are added up in f32
  bench.run(fmt::format("{} {}x{}x{}", name, m, n, k), 2.0 * double(m) * double(n) * double(k));
}

/// y = x W^T, dx = dy W, dW = dy^T x
void linear(uint32_t threads, const Model &model, const char *name, uint64_t in, uint64_t out) {
  uint64_t tokens = model.batch * model.seq;
  gemm(threads, fmt::format("{} {} forward", model.name, name), tokens, out, in, false, true);
  gemm(threads, fmt::format("{} {} dx", model.name, name), tokens, in, out, false, false);
  gemm(threads, fmt::format("{} {} dW", model.name, name), out, in, tokens, true, false);
}

/// Rows of tokens that have chosen experts at random: how many an expert gets differs.
std::vector<int32_t> startsOfExperts(uint64_t rows, uint64_t experts) {
  std::mt19937 generator(1);
  std::vector<int32_t> starts(experts + 1);
  for (uint64_t row = 0; row < rows; ++row)
    ++starts[1 + generator() % experts];
  for (uint64_t expert = 0; expert < experts; ++expert)
    starts[expert + 1] += starts[expert];
  return starts;
}

void groupedGemm(uint32_t threads, const std::string &name, uint64_t rows, uint64_t n, uint64_t k, uint64_t experts,
                 bool transposeB, bool outer) {
  Bench bench(threads);
  const uint64_t matrices = experts * k * n;
  for (uint64_t floats : {rows * k, outer ? rows * n : matrices, experts + 1, outer ? matrices : rows * n})
    bench.operand(floats);
  bench.panels(outer ? matmulScratchBytes(k, n, rows) : matmulScratchBytes(rows, n, k));
  bench.starts = startsOfExperts(rows, experts);
  plan::GroupedGemm &call = *bench.step->mutable_grouped_gemm();
  call.set_rows(rows);
  call.set_n(n);
  call.set_k(k);
  call.set_groups(experts);
  call.set_transpose_b(transposeB);
  call.set_outer(outer);
  call.set_type_a(Bench::type);
  call.set_type_c(outer ? plan::F32 : Bench::type);
  bench.run(fmt::format("{} {}x{}x{}", name, rows, n, k), 2.0 * double(rows) * double(n) * double(k));
}

/// The products of experts' rows, each beside one dense product of as many operations.
void experts(uint32_t threads, uint64_t rows, uint64_t width, uint64_t inner, uint64_t count) {
  const std::string name = fmt::format("{} experts", count);
  gemm(threads, "dense forward", rows, inner, width, false, true);
  groupedGemm(threads, name + " forward", rows, inner, width, count, true, false);
  gemm(threads, "dense dx", rows, width, inner, false, false);
  groupedGemm(threads, name + " dx", rows, width, inner, count, false, false);
  gemm(threads, "dense dW", inner, width, rows, true, false);
  groupedGemm(threads, name + " dW", rows, width, inner, count, false, true);
}

void attention(uint32_t threads, const Model &model, uint64_t block, bool grad) {
  Bench bench(threads);
  uint64_t queries = model.batch * model.seq * model.heads * model.dim,
           keys = model.batch * model.seq * model.kvHeads * model.dim;
  uint64_t rows = model.batch * model.seq * model.heads;
  std::vector<uint64_t> sizes = {queries, keys, keys, queries, rows};
  if (grad)
    sizes.insert(sizes.end(), {queries, queries, keys, keys});
  sizes.push_back((Bench::type == plan::F32 ? attentionScratchBytes(model.seq, block, grad)
                                            : narrowAttentionScratchBytes(model.seq, model.dim, block, grad)) /
                  4 * threads);
  for (uint64_t floats : sizes)
    bench.operand(floats);
  plan::Attention &call = *bench.step->mutable_attention();
  call.set_batch(model.batch);
  call.set_seq(model.seq);
  call.set_heads(model.heads);
  call.set_kv_heads(model.kvHeads);
  call.set_head_dim(model.dim);
  call.set_scale(0.1);
  call.set_causal(true);
  call.set_block(block);
  call.set_grad(grad);
  call.set_type(Bench::type);
  // Useful work alone: the half below the diagonal.
  double products = grad ? 5 : 2;
  bench.run(fmt::format("{} attention{} block {}", model.name, grad ? " grad" : "", block),
            products * double(queries) * double(model.seq + 1));
}

void loss(uint32_t threads, const Model &model, uint64_t chunk, bool training) {
  Bench bench(threads);
  uint64_t tokens = model.batch * model.seq;
  std::vector<uint64_t> sizes = {tokens * model.width, model.vocabulary * model.width, tokens, 1,
                                 linearCrossEntropyScratchBytes(chunk, model.vocabulary) / 4};
  if (training)
    sizes.insert(sizes.end(), {1, tokens * model.width, model.vocabulary * model.width});
  for (uint64_t floats : sizes)
    bench.operand(floats);
  bench.panels(linearCrossEntropyPanelBytes(chunk, model.width, model.vocabulary));
  plan::LinearCrossEntropy &call = *bench.step->mutable_linear_cross_entropy();
  call.set_tokens(tokens);
  call.set_width(model.width);
  call.set_vocabulary(model.vocabulary);
  call.set_chunk(chunk);
  call.set_training(training);
  call.set_type(Bench::type);
  bench.run(fmt::format("{} loss{} chunk {}", model.name, training ? " and gradients" : "", chunk),
            (training ? 6.0 : 2.0) * double(tokens) * double(model.width) * double(model.vocabulary));
}

} // namespace

int main(int argc, char **argv) {
  uint32_t threads = argc > 1 ? uint32_t(std::atoi(argv[1])) : std::max(1u, std::thread::hardware_concurrency());
  std::string filter = argc > 2 && std::string(argv[2]) != "all" ? argv[2] : "";
  const std::string type = argc > 3 ? argv[3] : "f32";
  Bench::type = type == "bf16" ? plan::BF16 : type == "f16" ? plan::F16 : plan::F32;
  if (argc > 4)
    if (const Status status = limitHostTarget(argv[4]); !status.isOk()) {
      std::fprintf(stderr, "%s\n", status.message().c_str());
      return 1;
    }
  const Model models[] = {{"llama-mini", 2, 256, 256, 688, 8, 4, 32, 1024},
                          {"stories15M", 8, 256, 288, 768, 6, 6, 48, 32000}};
  const Model longer[] = {{"S=1024 D=64", 1, 1024, 512, 1376, 4, 4, 64, 1024},
                          {"S=4096 D=64", 1, 4096, 512, 1376, 2, 2, 64, 1024}};
  for (const Model &model : longer)
    for (uint64_t block : {32, 64, 128, 256})
      for (bool grad : {false, true})
        if (filter.empty() || filter == "attention")
          attention(threads, model, block, grad);
  for (uint64_t rows : {1, 4, 8}) // of tokens that are generated
    for (uint64_t width : {512, 2048})
      for (bool transposeB : {true, false})
        if (filter.empty() || filter == "rows")
          gemm(threads, transposeB ? "few rows forward" : "few rows dx", rows, width, width, false, transposeB);
  if (filter.empty() || filter == "experts")
    for (auto [rows, count] : {std::pair<uint64_t, uint64_t>{4096, 32}, {1024, 128}})
      experts(threads, rows, 512, 1024, count);
  for (const Model &model : models) {
    if (filter.empty() || filter == "linear") {
      linear(threads, model, "o", model.heads * model.dim, model.width);
      linear(threads, model, "qkv", model.width, (model.heads + 2 * model.kvHeads) * model.dim);
      linear(threads, model, "gate", model.width, model.inner);
      linear(threads, model, "down", model.inner, model.width);
    }
    for (uint64_t block : {32, 64, 128, 256})
      for (bool grad : {false, true})
        if (filter.empty() || filter == "attention")
          attention(threads, model, block, grad);
    for (uint64_t chunk : {64, 128, 256, 512})
      for (bool training : {false, true})
        if (filter.empty() || filter == "loss")
          loss(threads, model, chunk, training);
  }
  return 0;
}
