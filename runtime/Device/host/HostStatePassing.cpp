// The states before each chunk of positions, one after the other.
#include "runtime/Device/host/HostStep.h"
#include "runtime/Device/host/Product.h"
#include "runtime/Format/StatePassingOperands.h"
#include <algorithm>

namespace ztc {
namespace {

/// States are independent of each other, and so are their columns: a worker takes some columns of a state through all
/// chunks. The states themselves lie where the results are. An element's bits depend on neither the columns beside it
/// nor on who computes it.
class HostStatePassing : public HostStep {
public:
  explicit HostStatePassing(const HostPrepare &from)
      : HostStep(from.resources), passing_(from.step.state_passing()), parts_(passing_) {}

  Status prepare(const HostPrepare &from) {
    ZTC_RETURN_IF_ERROR(resolve(from, {parts_.count()}));
    for (const StatePassingOperands::Operand &operand : parts_.all())
      if (operand.index >= 0)
        ZTC_RETURN_IF_ERROR(require(from, size_t(operand.index), operand.bytes));
    const uint64_t values = passing_.values();
    columns_ = values;
    for (const uint64_t wanted = kTasksOfWorker * resources_.pool.threads();
         passing_.rows() * pieces(values) < wanted && columns_ > kFewestColumns;)
      columns_ = std::max(kFewestColumns, (columns_ + 1) / 2 / kFewestColumns * kFewestColumns);
    for (uint64_t columns : {std::min(columns_, values), values % columns_})
      if (passing_.positions() && columns) {
        ZTC_RETURN_IF_ERROR(resources_.matmuls.reserve(readProblem(columns)));
        ZTC_RETURN_IF_ERROR(resources_.matmuls.reserve(changeProblem(columns)));
      }
    return Status::ok();
  }

  Status execute(uint32_t) override {
    resources_.pool.forEach(passing_.rows() * pieces(passing_.values()), [&](uint32_t worker, uint64_t task) {
      pass(worker, task % passing_.rows(), task / passing_.rows() * columns_);
    });
    return Status::ok();
  }

private:
  using Part = StatePassingOperands::Part;
  static constexpr uint64_t kTasksOfWorker = 4, kFewestColumns = 32;

  uint64_t pieces(uint64_t values) const { return (values + columns_ - 1) / columns_; }
  /// Row `row` of an operand whose rows have `elements`; null where it is absent.
  float *rowOf(Part part, uint64_t row, uint64_t elements) const {
    const int index = parts_[part].index;
    return index < 0 ? nullptr : pointer<float>(size_t(index)) + row * elements;
  }

  /// x (positions, columns) += from (positions, keys) S (keys, columns).
  MatmulProblem readProblem(uint64_t columns) const {
    MatmulProblem problem;
    problem.m = passing_.positions();
    problem.n = columns;
    problem.k = passing_.keys();
    problem.lda = passing_.keys();
    problem.ldb = problem.ldc = passing_.values();
    problem.add = true;
    return problem;
  }

  /// S (keys, columns) += to^T x, of to (positions, keys).
  MatmulProblem changeProblem(uint64_t columns) const {
    MatmulProblem problem = readProblem(columns);
    std::swap(problem.m, problem.k);
    problem.transposeA = true;
    return problem;
  }

  /// `columns` of state `state` from `column` on, through all chunks.
  void pass(uint32_t worker, uint64_t state, uint64_t column) const {
    const uint64_t N = passing_.chunks(), R = passing_.rows(), K = passing_.keys(), V = passing_.values(),
                   C = passing_.positions(), columns = std::min(columns_, V - column);
    const auto rowOfStep = [&](uint64_t step) { return (passing_.reverse() ? N - 1 - step : step) * R + state; };
    float *now = rowOf(Part::Before, rowOfStep(0), K * V) + column;
    const float *past = rowOf(Part::Past, state, K * V);
    for (uint64_t k = 0; k < K; ++k)
      if (past)
        std::copy_n(past + k * V + column, columns, now + k * V);
      else
        std::fill_n(now + k * V, columns, 0.0f);
    for (uint64_t step = 0; step < N; ++step) {
      const uint64_t row = rowOfStep(step);
      float *next =
          (step + 1 < N ? rowOf(Part::Before, rowOfStep(step + 1), K * V) : rowOf(Part::Last, state, K * V)) + column;
      goOn(now, next, row, column, columns);
      if (C) {
        float *x = rowOf(Part::X, row, C * V) + column;
        const float *update = rowOf(Part::Update, row, C * V) + column;
        for (uint64_t c = 0; c < C; ++c)
          std::copy_n(update + c * V, columns, x + c * V);
        multiplyTile(resources_.matmuls, worker, readProblem(columns), rowOf(Part::From, row, C * K), now, x, nullptr);
        multiplyTile(resources_.matmuls, worker, changeProblem(columns), rowOf(Part::To, row, C * K), x, next, nullptr);
      }
      now = next;
    }
  }

  /// next = decay now + plus.
  void goOn(const float *now, float *next, uint64_t row, uint64_t column, uint64_t columns) const {
    const uint64_t K = passing_.keys(), V = passing_.values(), keys = passing_.decay_keys(),
                   parts = passing_.decay_parts();
    const float *plus = rowOf(Part::Plus, row, K * V);
    for (uint64_t k = 0; k < K; ++k) {
      const float *from = now + k * V;
      float *to = next + k * V;
      if (const float *decay = rowOf(Part::Decay, row, keys * parts)) {
        decay += keys > 1 ? k * parts : 0;
        const uint64_t width = V / parts;
        for (uint64_t v = 0; v < columns;) {
          const uint64_t part = (column + v) / width, end = std::min(columns, (part + 1) * width - column);
          const float factor = decay[part];
          for (; v < end; ++v)
            to[v] = from[v] * factor;
        }
      } else {
        std::copy_n(from, columns, to);
      }
      if (plus)
        for (uint64_t v = 0; v < columns; ++v)
          to[v] += plus[k * V + column + v];
    }
  }

  const plan::StatePassing passing_;
  const StatePassingOperands parts_;
  uint64_t columns_ = 0; ///< of a state that a worker takes at a time
};

} // namespace

PreparedStep prepareHostStatePassing(const HostPrepare &from) {
  auto step = std::make_unique<HostStatePassing>(from);
  ZTC_RETURN_IF_ERROR(step->prepare(from));
  return PreparedStep(std::move(step));
}

} // namespace ztc
