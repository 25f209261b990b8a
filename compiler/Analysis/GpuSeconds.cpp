#include "compiler/Analysis/GpuSeconds.h"
#include "runtime/Format/CudnnAttention.h"
#include "runtime/Format/GemmOperands.h"
#include "runtime/Format/PlanValidator.h"
#include "runtime/Format/ScanSizes.h"
#include "runtime/Format/Steps/AttentionWorkspace.h"
#include "runtime/Format/Steps/LossRows.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>
#include <cmath>
#include <limits>

namespace ztc {

namespace {

/// Tiles of C as libraries have them, and what of the rate of the largest they reach.
struct TileShape {
  uint64_t rows, columns;
  double share;
};
constexpr TileShape kTiles[] = {{128, 256, 1}, {256, 128, 1}, {128, 128, 0.9}, {64, 128, 0.75}, {64, 64, 0.5}};

/// Between two tiles of a multiprocessor: first loads, and waiting for the others of its wave.
constexpr double kTileSeconds = 2e-6;

/// What of the L2 cache keeps what was read a while ago.
constexpr double kShareOfCache = 0.75;

/// The least columns of a tile's K that are worth a split of it, and from how many waves of whole tiles none is.
constexpr uint64_t kLeastOfK = 256, kFewWaves = 4;

double tileFlopsOf(const plan::Plan &plan, plan::DataType type, const MachineRates &rates) {
  if (isNarrow(type))
    return rates.narrowProductFlops;
  return plan.tf32() ? rates.tf32ProductFlops : rates.productFlops;
}

/// How often a result is added to what is there, of the executions of its step.
double shareOfAdding(plan::Accumulate accumulate, const GpuRun &run) {
  if (accumulate == plan::ADD_UNLESS_FIRST)
    return 1 - 1 / double(std::max<uint64_t>(1, run.microSteps));
  return accumulate == plan::ADD ? 1 : 0;
}

double gemmSeconds(const plan::Plan &plan, const plan::Step &step, const MachineRates &rates, const GpuRun &run) {
  const plan::Gemm &gemm = step.gemm();
  const double factor = double(dataTypeBytes(gemm.type_a())), result = double(dataTypeBytes(gemm.type_c()));
  ProductShape shape{gemm.m(), gemm.n(), gemm.k(), std::max<uint64_t>(1, gemm.batch()), factor, result};
  // What the result is added to, a residual, and GELU's sums. A bias is a row.
  const GemmOperands more = GemmOperands::of(step);
  shape.resultBytes += result * (more.matrix || more.sums ? 1 : shareOfAdding(gemm.accumulate(), run));
  return productSeconds(rates, shape, tileFlopsOf(plan, gemm.type_a(), rates));
}

double scaledGemmSeconds(const plan::Step &step, const MachineRates &rates, const GpuRun &run) {
  const plan::ScaledGemm &gemm = step.scaled_gemm();
  const double result = double(dataTypeBytes(gemm.type_c()));
  return productSeconds(rates,
                        {gemm.m(), gemm.n(), gemm.k(), 1, 1, result * (1 + shareOfAdding(gemm.accumulate(), run))},
                        rates.fp8ProductFlops);
}

/// Tiles of the groups' results by own kernels. How many rows a group has is not known: the last tile of each is taken
/// as half empty, and a multiprocessor computes all of it.
double groupedGemmSeconds(const plan::Plan &plan, const plan::Step &step, const MachineRates &rates,
                          const GpuRun &run) {
  constexpr double kRows = 128, kColumns = 128;
  const plan::GroupedGemm &gemm = step.grouped_gemm();
  const double rows = double(gemm.rows()), n = double(gemm.n()), k = double(gemm.k()), groups = double(gemm.groups());
  const double factor = double(dataTypeBytes(gemm.type_a())), type = double(dataTypeBytes(gemm.type_c()));
  const double columnTiles = double(llvm::divideCeil(gemm.n(), uint64_t(kColumns)));
  const double results = gemm.outer() ? groups * k * n : rows * n;
  const double factors = rows * k + (gemm.outer() ? rows * n : groups * k * n);
  const double resultBytes = type * (1 + (gemm.outer() ? shareOfAdding(gemm.accumulate(), run) : 0));
  const double tiles = columnTiles * (gemm.outer() ? groups * double(llvm::divideCeil(gemm.k(), uint64_t(kRows)))
                                                   : rows / kRows + std::min(groups, rows) / 2);
  const double depth = gemm.outer() ? rows / groups : k;
  const double ofOne = tileFlopsOf(plan, gemm.type_a(), rates) * rates.groupedShare / rates.multiprocessors;
  const double one = 2 * kRows * kColumns * depth / ofOne + kTileSeconds +
                     kRows * kColumns * resultBytes / (rates.memoryBytes / rates.multiprocessors);
  return std::max(std::ceil(tiles / rates.multiprocessors) * one,
                  (factors * factor + results * resultBytes) / rates.memoryBytes);
}

/// A block goes through the positions of 64 channels in turn: what a warp issues for each, at the rate of few warps.
double scanSeconds(const plan::SelectiveScan &scan, double bytes, const MachineRates &rates) {
  // Instructions of sm_90a for a position, and for each number of the state that a thread has. Not measured: cycles
  // between two of a warp that is alone, and the share of a scheduler's cycles in which one of several warps has one.
  constexpr double kForward = 10, kForwardState = 33, kGradient = 30, kGradientState = 82, kCyclesAlone = 3,
                   kIssued = 0.7, kSchedulers = 4, kLanes = 128;
  constexpr double kWarps = double(kScanGroup * kGpuScanTeam) / 32;
  const auto own = double(llvm::divideCeil(scan.states(), kGpuScanTeam));
  const double instructions = scan.grad() ? kGradient + kGradientState * own : kForward + kForwardState * own;
  const auto blocks =
      double(llvm::divideCeil(scan.batch() * scanGroups(scan.channels()), uint64_t(rates.multiprocessors)));
  const double cycles =
      double(scan.positions()) * instructions * std::max(kCyclesAlone, blocks * kWarps / kSchedulers / kIssued);
  const double clock = rates.productFlops / (2 * kLanes * rates.multiprocessors);
  return std::max(cycles / clock, bytes / (rates.memoryBytes * rates.kernelShare));
}

/// Chunk by chunk: logits, the kernel of their rows, the cotangents of hidden and of a trained head, which every chunk
/// after the first adds to.
GpuSeconds lossSeconds(const plan::Plan &plan, const LossChunks &loss, const MachineRates &rates, const GpuRun &run) {
  const double type = double(dataTypeBytes(loss.type)), tileFlops = tileFlopsOf(plan, loss.type, rates);
  // A multiprocessor has one row at a time, and some of the cache is others'.
  const bool staysInCache = double(loss.vocabulary) * type * rates.multiprocessors <= kShareOfCache * rates.cacheBytes;
  GpuSeconds seconds{0, 1};
  for (uint64_t first = 0; first < loss.tokens; first += loss.rows) {
    const uint64_t some = std::min(loss.rows, loss.tokens - first);
    seconds.work += productSeconds(rates, {some, loss.vocabulary, loss.width, 1, type, type}, tileFlops);
    // Read for the softmax and, in training, once more for the cotangents, which are written in their place.
    const double reads = !loss.training || staysInCache ? 1 : 2, writes = loss.training ? 1 : 0;
    seconds.work +=
        double(some) * double(loss.vocabulary) * type * (reads + writes) / (rates.memoryBytes * rates.kernelShare);
    if (loss.training)
      seconds.work += productSeconds(rates, {some, loss.width, loss.vocabulary, 1, type, type}, tileFlops);
    const double adds = first > 0 ? 1 : shareOfAdding(loss.accumulate, run);
    if (loss.trainsHead)
      seconds.work += productSeconds(rates, {loss.vocabulary, loss.width, some, 1, type, 4 * (1 + adds)}, tileFlops);
    seconds.launches += loss.training ? loss.trainsHead ? 4 : 3 : 2;
  }
  return seconds;
}

/// The length of a causal row that costs as much: of a window half of the keys are at its edges, as of a triangle.
uint64_t tokensSeen(const plan::Attention &attention) {
  return attention.window() ? std::min(attention.seq(), 2 * attention.window()) : attention.seq();
}

/// Kernels of a gradient: of the library delta, all but dq, dq, and the sums over a group's heads; of our own three.
constexpr unsigned kGradientKernels = 4, kOwnGradientKernels = 3;

/// Blocks of a multiprocessor's keys, and what of the time of the longest passes, at a part's end, while
/// multiprocessors have none left.
constexpr double kBlockKeys = 128, kTailOfPart = 0.25;

/// In as many parts as the workspace makes it; nothing where it has no room for one.
std::optional<GpuSeconds> scoresGradientSeconds(const plan::Plan &plan, const plan::Step &step,
                                                const MachineRates &rates) {
  const plan::Attention &attention = step.attention();
  const AttentionPart part = scoresPart(plan, step);
  const double flops = rates.narrowProductFlops * rates.scoresGradient.of(attention.head_dim(), tokensSeen(attention));
  if (!part.sequences || flops == 0)
    return std::nullopt;
  const uint64_t parts = attention.batch() / part.sequences * (attention.kv_heads() / part.kvHeads);
  // Five products of a block of keys with all queries.
  const double longest = 5 * 2 * kBlockKeys * double(attention.seq()) * double(attention.head_dim());
  return GpuSeconds{double(step.flops()) / flops +
                        double(parts - 1) * kTailOfPart * longest / (flops / rates.multiprocessors),
                    unsigned(parts) * kGradientKernels};
}

GpuSeconds attentionSeconds(const plan::Plan &plan, const plan::Step &step, double bytes, const MachineRates &rates,
                            const GpuRun &run) {
  const plan::Attention &attention = step.attention();
  const bool narrow = isNarrow(attention.type()), grad = attention.grad();
  const bool own = cudnnAttentionObstacle(narrow, attention.head_dim(), {attention.packed(), attention.softcap() != 0});
  const auto by = [&](const AttentionShare &share, unsigned launches) {
    const double flops = (narrow ? rates.narrowProductFlops : rates.productFlops) *
                         share.of(attention.head_dim(), tokensSeen(attention));
    return GpuSeconds{std::max(double(step.flops()) / flops, bytes / rates.memoryBytes), launches};
  };
  if (own) {
    // Own kernels in f32 have no tensor cores.
    constexpr AttentionShare kOwnWide{0.5, 1, 0};
    const AttentionShare &share = !narrow ? kOwnWide : grad ? rates.ownAttentionGradient : rates.ownAttention;
    return by(share, grad ? kOwnGradientKernels : 1);
  }
  if (!grad)
    return by(rates.attention, 1);
  std::vector<GpuSeconds> ways{by(rates.attentionGradient, kGradientKernels)};
  if (const std::optional<GpuSeconds> scores = scoresGradientSeconds(plan, step, rates))
    ways.push_back(*scores);
  if (!run.deterministic) // a fixed order is one of any
    ways.push_back(by(rates.anyOrderGradient, kGradientKernels));
  return *llvm::min_element(ways, [&](const GpuSeconds &a, const GpuSeconds &b) {
    return a.work + a.launches * rates.launchSeconds < b.work + b.launches * rates.launchSeconds;
  });
}

} // namespace

double productSeconds(const MachineRates &rates, const ProductShape &shape, double tileFlops) {
  const double elements = double(shape.m) * double(shape.n) * double(shape.batch);
  const double ofOne = tileFlops / rates.multiprocessors, bytesOfOne = rates.memoryBytes / rates.multiprocessors;
  double best = std::numeric_limits<double>::max();
  for (const TileShape &tile : kTiles) {
    const uint64_t whole = llvm::divideCeil(shape.m, tile.rows) * llvm::divideCeil(shape.n, tile.columns) * shape.batch;
    // K is split where tiles are few.
    for (uint64_t parts = 1; parts <= 8; parts *= 2) {
      if (parts > 1 && (shape.k / parts < kLeastOfK || whole >= kFewWaves * rates.multiprocessors))
        break;
      const uint64_t tiles = whole * parts;
      const double area = double(tile.rows * tile.columns);
      const double one = 2 * area * double(shape.k) / double(parts) / (ofOne * tile.share) + kTileSeconds +
                         area * (parts > 1 ? 4 : shape.resultBytes) / bytesOfOne;
      double seconds = double(llvm::divideCeil(tiles, rates.multiprocessors)) * one;
      // Sums in f32 of the parts of K, added up by another kernel.
      if (parts > 1)
        seconds += rates.launchSeconds + elements * (4 * double(parts) + shape.resultBytes) / rates.memoryBytes;
      best = std::min(best, seconds);
    }
  }
  const double factors = double(shape.m + shape.n) * double(shape.k) * double(shape.batch) * shape.factorBytes;
  return std::max(best, (factors + elements * shape.resultBytes) / rates.memoryBytes);
}

GpuSeconds gpuStepSeconds(const plan::Plan &plan, const plan::Step &step, double bytes, const MachineRates &rates,
                          const GpuRun &run) {
  if (step.has_gemm())
    return {gemmSeconds(plan, step, rates, run)};
  if (step.has_grouped_gemm())
    return {groupedGemmSeconds(plan, step, rates, run)};
  if (step.has_selective_scan())
    return {scanSeconds(step.selective_scan(), bytes, rates)};
  if (step.has_scaled_gemm())
    return {scaledGemmSeconds(step, rates, run)};
  if (const std::optional<LossChunks> loss = lossChunks(step))
    return lossSeconds(plan, *loss, rates, run);
  if (step.has_attention())
    return attentionSeconds(plan, step, bytes, rates, run);
  const auto launches = unsigned(std::max(1, step.route().gpu_kernels_size()));
  return {std::max(double(step.flops()) / rates.kernelFlops, bytes / (rates.memoryBytes * rates.kernelShare)),
          launches};
}

} // namespace ztc
