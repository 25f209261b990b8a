// Products of rows that belong to groups, and the sums of a group's outer products.
#include "runtime/Core/Sizes.h"
#include "runtime/Device/host/HostStep.h"
#include "runtime/Device/host/Product.h"
#include "runtime/Format/PlanValidator.h"
#include <algorithm>
#include <cstring>
#include <fmt/format.h>

namespace ztc {
namespace {

/// How many rows a group has is known when the step runs. Tiles of all groups' results are computed at once, each in
/// one thread: an element is a chain over k that depends on k alone, so neither on the other rows of its group nor on
/// who computes it.
class HostGroupedGemm : public HostStep {
public:
  explicit HostGroupedGemm(HostResources &resources) : HostStep(resources) {}

  Status prepare(const HostPrepare &from) {
    const plan::GroupedGemm &gemm = from.step.grouped_gemm();
    const bool isNarrow = gemm.type_a() != plan::F32;
    ZTC_RETURN_IF_ERROR(resolve(from, {isNarrow ? 5 : 4}));
    if (!gemm.rows() || !gemm.n() || !gemm.k() || !gemm.groups())
      return dataLoss("a grouped product without rows, columns or groups");
    outer_ = gemm.outer();
    rows_ = gemm.rows();
    groups_ = gemm.groups();
    accumulate_ = gemm.accumulate();
    // Of a group: C (m, n), op(A) (m, k), op(B) (k, n), of which the rows of the group are m, of outer products k.
    problem_.m = outer_ ? gemm.k() : gemm.rows();
    problem_.n = gemm.n();
    problem_.k = outer_ ? gemm.rows() : gemm.k();
    problem_.lda = gemm.k();
    problem_.ldb = gemm.transpose_b() ? gemm.k() : gemm.n();
    problem_.ldc = gemm.n();
    problem_.transposeA = outer_;
    problem_.transposeB = gemm.transpose_b();
    problem_.typeA = problem_.typeB = gemm.type_a();
    problem_.typeC = gemm.type_c();
    bytesA_ = dataTypeBytes(gemm.type_a());
    bytesC_ = dataTypeBytes(gemm.type_c());
    ZTC_RETURN_IF_ERROR(requireElements(from, A, {rows_, gemm.k()}, bytesA_));
    ZTC_RETURN_IF_ERROR(requireElements(from, B, {outer_ ? rows_ : groups_ * gemm.k(), gemm.n()}, bytesA_));
    ZTC_RETURN_IF_ERROR(requireElements(from, Starts, {groups_ + 1}));
    ZTC_RETURN_IF_ERROR(requireElements(from, C, {outer_ ? groups_ * gemm.k() : rows_, gemm.n()}, bytesC_));
    if (isNarrow) {
      panelBytes_ = matmulScratchBytes(problem_.m, problem_.n, problem_.k);
      ZTC_RETURN_IF_ERROR(requireElements(from, Panels, {resources_.pool.threads(), panelBytes_}, 1));
    }
    chooseTile();
    tilesBefore_.resize(groups_ + 1);
    return reserve();
  }

  Status execute(uint32_t microstep) override {
    ZTC_RETURN_IF_ERROR(checkStarts());
    const int32_t *starts = pointer<int32_t>(Starts);
    for (uint64_t group = 0; group < groups_; ++group) {
      const uint64_t m = outer_ ? problem_.m : uint64_t(starts[group + 1] - starts[group]);
      tilesBefore_[group + 1] = tilesBefore_[group] + pieces(m, tile_.rows) * pieces(problem_.n, tile_.columns);
    }
    const bool add = addsNow(accumulate_, microstep);
    const auto work = [&](uint32_t worker, uint64_t index) { multiply(worker, index, add); };
    // Below this many multiply-adds waking the other workers costs more than it saves.
    constexpr double kSmallProduct = 1 << 18;
    if (double(problem_.m) * double(problem_.n) * double(problem_.k) >= kSmallProduct)
      resources_.pool.forEach(tilesBefore_[groups_], work);
    else
      for (uint64_t index = 0; index < tilesBefore_[groups_]; ++index)
        work(0, index);
    return Status::ok();
  }

private:
  enum Operands { A, B, Starts, C, Panels };

  static uint64_t pieces(uint64_t extent, uint64_t piece) { return (extent + piece - 1) / piece; }

  /// Panels are as large as a WidenedTile at most. As they lie, matrices are read the less often the larger tiles are;
  /// smaller ones where workers would wait.
  void chooseTile() {
    constexpr uint64_t kMostRows = 512, kMostColumns = 1024, kColumnGrain = 32, kTilesOfWorker = 8, kFewestRows = 96,
                       kFewestColumns = 64;
    if (multipliesAsStored(problem_))
      tile_.rows = kMostRows, tile_.columns = kMostColumns;
    tile_.columns = evenPiece(problem_.n, tile_.columns, kColumnGrain);
    const uint64_t wanted = kTilesOfWorker * resources_.pool.threads(), rows = outer_ ? problem_.m : rows_ / groups_;
    const auto count = [&] { return groups_ * pieces(rows, tile_.rows) * pieces(problem_.n, tile_.columns); };
    while (count() < wanted && tile_.columns > kFewestColumns)
      tile_.columns = roundUp(tile_.columns / 2, kColumnGrain);
    if (count() < wanted)
      tile_.rows = kFewestRows;
  }

  /// Room for every tile that a group may have.
  Status reserve() {
    for (uint64_t columns : {std::min(tile_.columns, problem_.n), problem_.n % tile_.columns})
      for (uint64_t rows : {std::min(tile_.rows, problem_.m), outer_ ? problem_.m % tile_.rows : 0}) {
        MatmulProblem tile = problem_;
        tile.m = rows;
        tile.n = columns;
        if (rows && columns)
          ZTC_RETURN_IF_ERROR(reserveTiles(resources_.matmuls, tile, outer_ ? &MatmulProblem::k : &MatmulProblem::m));
      }
    return Status::ok();
  }

  /// A plan is not trusted, nor is what fills the slot that it names.
  Status checkStarts() const {
    const int32_t *starts = pointer<int32_t>(Starts);
    if (starts[0] != 0)
      return invalidArgument(fmt::format("groups of a grouped product start at row {}, expected 0", starts[0]));
    for (uint64_t group = 0; group < groups_; ++group)
      if (starts[group + 1] < starts[group])
        return invalidArgument(fmt::format("group {} of a grouped product ends at row {}, before its start {}", group,
                                           starts[group + 1], starts[group]));
    if (uint64_t(starts[groups_]) != rows_)
      return invalidArgument(
          fmt::format("groups of a grouped product end at row {}, expected {}", starts[groups_], rows_));
    return Status::ok();
  }

  /// The tile `index` of all groups' results.
  void multiply(uint32_t worker, uint64_t index, bool add) const {
    const auto after = std::upper_bound(tilesBefore_.begin(), tilesBefore_.end(), index);
    const auto group = uint64_t(after - tilesBefore_.begin()) - 1;
    const int32_t *starts = pointer<int32_t>(Starts);
    const auto first = uint64_t(starts[group]), rows = uint64_t(starts[group + 1]) - first;
    const uint64_t m = outer_ ? problem_.m : rows, n = problem_.n, tilesOfRows = pieces(m, tile_.rows);
    const uint64_t within = index - tilesBefore_[group];
    const uint64_t row = within % tilesOfRows * tile_.rows, column = within / tilesOfRows * tile_.columns;
    MatmulProblem tile = problem_;
    tile.m = std::min(tile_.rows, m - row);
    tile.n = std::min(tile_.columns, n - column);
    tile.k = outer_ ? rows : problem_.k;
    tile.add = add;
    const uint64_t matrix = group * (outer_ ? m : problem_.k) * n; // of the group, in B or in C
    const uint64_t a = outer_ ? first * problem_.lda + row : (first + row) * problem_.lda;
    const uint64_t b = (outer_ ? first * problem_.ldb : matrix) + column * (problem_.transposeB ? problem_.ldb : 1);
    std::byte *c = pointer<std::byte>(C) + ((outer_ ? matrix : first * n) + row * n + column) * bytesC_;
    if (!tile.k) {
      for (uint64_t i = 0; i < tile.m && !add; ++i)
        std::memset(c + i * n * bytesC_, 0, tile.n * bytesC_);
      return;
    }
    multiplyTile(resources_.matmuls, worker, tile, pointer<std::byte>(A) + a * bytesA_,
                 pointer<std::byte>(B) + b * bytesA_, c,
                 panelBytes_ ? pointer<std::byte>(Panels) + worker * panelBytes_ : nullptr);
  }

  MatmulProblem problem_; ///< of a group with all rows
  WidenedTile tile_;
  bool outer_ = false;
  uint64_t rows_ = 0, groups_ = 0, bytesA_ = 0, bytesC_ = 0;
  uint64_t panelBytes_ = 0;           ///< of each worker
  std::vector<uint64_t> tilesBefore_; ///< by group
  plan::Accumulate accumulate_ = plan::OVERWRITE;
};

} // namespace

PreparedStep prepareHostGroupedGemm(const HostPrepare &from) {
  auto step = std::make_unique<HostGroupedGemm>(from.resources);
  ZTC_RETURN_IF_ERROR(step->prepare(from));
  return PreparedStep(std::move(step));
}

} // namespace ztc
