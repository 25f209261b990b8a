// Which tile of a grouped product a block has, and products of f32 by multiply-adds.
#include "compiler/Codegen/DeviceGroupedGemm.h"
#include "compiler/Codegen/DeviceEmitter.h"
#include "compiler/Codegen/DeviceRows.h"
#include "runtime/Format/ExpertKernels.h"

using namespace mlir;

namespace ztc {
using namespace codegen;

namespace {

/// Finds the tile of a block. Buffers: a, b, starts, c. Scalars: rows, n, k, groups, with `outer` whether to add.
class TileFinder {
public:
  TileFinder(BlockKernel &kernel, const GroupedGemmForm &form, int64_t side)
      : k(kernel), b(kernel.b), form_(form), side_(side), type_(b.element(form.type)), result_(b.element(form.result)) {
    for (unsigned i = 0; i < 4; ++i)
      scalars_.push_back(arith::TruncIOp::create(b, i32_, k.scalar(i)));
    block_ = arith::TruncIOp::create(b, i32_, k.block());
    Value thread = arith::TruncIOp::create(b, i32_, k.thread());
    lane_ = arith::AndIOp::create(b, thread, i32(kWarp - 1));
  }

  void emit(llvm::function_ref<void(const GroupedTile &)> compute) {
    if (form_.outer)
      compute(outerTile());
    else
      ifTileOfRows(compute);
  }

private:
  static constexpr int64_t kPanel = kGroupedPanel;

  Value i32(int64_t value) { return b.integer(i32_, value); }
  Value wide(Value number) { return arith::ExtUIOp::create(b, b.getI64Type(), number); }
  Value rows() { return scalars_[0]; }
  Value n() { return scalars_[1]; }
  Value inner() { return scalars_[2]; }
  Value groups() { return scalars_[3]; }
  Value tilesOf(Value count) { return arith::DivUIOp::create(b, b.add(count, i32(side_ - 1)), i32(side_)); }
  Value startOf(Value group) { return b.load(b.address(k.buffer(2), i32_, group), i32_, 1); }
  Value less(Value x, Value y) { return b.compare(arith::CmpIPredicate::ult, x, y); }
  Value least(Value x, Value y) { return arith::MinUIOp::create(b, x, y); }

  /// The address of element (row, column) of matrix `matrix`, which has `height` rows of `width`.
  Value element(Value base, Type type, Value matrix, Value height, Value row, Value width, Value column) {
    Value line = wide(row);
    if (matrix)
      line = b.add(b.mul(wide(matrix), wide(height)), line);
    return b.address(base, type, b.add(b.mul(line, wide(width)), wide(column)));
  }

  /// A group's matrix, whole: the block has a tile of it, all of the inner dimension are the group's rows.
  GroupedTile outerTile() {
    Value columns = tilesOf(n()), perGroup = b.mul(tilesOf(inner()), columns);
    Value group = arith::DivUIOp::create(b, block_, perGroup), within = arith::RemUIOp::create(b, block_, perGroup);
    Value row = b.mul(arith::DivUIOp::create(b, within, columns), i32(side_));
    Value column = b.mul(arith::RemUIOp::create(b, within, columns), i32(side_));
    Value first = startOf(group), count = b.sub(startOf(b.add(group, i32(1))), first);
    GroupedTile tile;
    tile.rowsLeft = b.sub(inner(), row);
    tile.columnsLeft = b.sub(n(), column);
    tile.inner = count;
    tile.a = {element(k.buffer(0), type_, {}, {}, first, inner(), row), wide(inner()), tile.rowsLeft, count, true};
    tile.b = {element(k.buffer(1), type_, {}, {}, first, n(), column), wide(n()), tile.columnsLeft, count, true};
    tile.c = element(k.buffer(3), result_, group, inner(), row, n(), column);
    tile.stride = wide(n());
    tile.adds = b.compare(arith::CmpIPredicate::ne, k.scalar(4), b.i64(0));
    return tile;
  }

  void ifTileOfRows(llvm::function_ref<void(const GroupedTile &)> compute) {
    // As groupedPlace has it: panels of so many tiles of rows, the last one of fewer; within one columns go slowest.
    Value most = b.add(tilesOf(rows()), groups()), columns = tilesOf(n()), perPanel = b.mul(columns, i32(kPanel));
    Value panel = arith::DivUIOp::create(b, block_, perPanel), within = arith::RemUIOp::create(b, block_, perPanel);
    Value before = b.mul(panel, i32(kPanel)), height = least(b.sub(most, before), i32(kPanel));
    Value number = b.add(before, arith::RemUIOp::create(b, within, height));
    Value column = b.mul(arith::DivUIOp::create(b, within, height), i32(side_));
    auto [group, firstTile] = findGroup(number);
    k.ifThen(less(group, groups()), [&, group = group, firstTile = firstTile] {
      Value row = b.add(startOf(group), b.mul(b.sub(number, firstTile), i32(side_)));
      GroupedTile tile;
      tile.rowsLeft = b.sub(startOf(b.add(group, i32(1))), row);
      tile.columnsLeft = b.sub(n(), column);
      tile.inner = inner();
      tile.a = {element(k.buffer(0), type_, {}, {}, row, inner(), i32(0)), wide(inner()), tile.rowsLeft, inner(),
                false};
      if (form_.transposeB)
        tile.b = {element(k.buffer(1), type_, group, n(), column, inner(), i32(0)), wide(inner()), tile.columnsLeft,
                  inner(), false};
      else
        tile.b = {element(k.buffer(1), type_, group, inner(), i32(0), n(), column), wide(n()), tile.columnsLeft,
                  inner(), true};
      tile.c = element(k.buffer(3), result_, {}, {}, row, n(), column);
      tile.stride = wide(n());
      compute(tile);
    });
  }

  /// The group that tile `number` of all groups' is of, and the number of its first tile. No group: `groups`. A warp's
  /// lanes look at four groups each at a time: the loads of 128 groups wait together.
  std::pair<Value, Value> findGroup(Value number) {
    constexpr int64_t own = 4;
    auto found = k.forRange(
        i32(0), groups(), kWarp * own, {i32(0), groups(), i32(0)}, [&](Value begin, BlockKernel::Values &carried) {
          Value first = b.add(begin, b.mul(lane_, i32(own)));
          SmallVector<Value> starts, tiles;
          for (int64_t i = 0; i <= own; ++i)
            starts.push_back(startOf(least(b.add(first, i32(i)), groups())));
          Value sum = i32(0);
          for (int64_t i = 0; i < own; ++i) {
            tiles.push_back(tilesOf(b.sub(starts[i + 1], starts[i])));
            sum = b.add(sum, tiles[i]);
          }
          Value through = b.add(carried[0], sumToLane(b, sum, lane_)), before = b.sub(through, sum);
          Value lanes = k.ballot(less(number, through)), lane = least(lowestBit(b, lanes), i32(kWarp - 1));
          // Of this lane's groups that which begins last at or before the tile and has one.
          Value group = first, firstTile = before;
          for (int64_t i = 0; i < own; ++i) {
            Value isIn = arith::AndIOp::create(b, b.compare(arith::CmpIPredicate::uge, number, before),
                                               less(number, b.add(before, tiles[i])));
            group = b.select(isIn, b.add(first, i32(i)), group);
            firstTile = b.select(isIn, before, firstTile);
            before = b.add(before, tiles[i]);
          }
          Value isHere = arith::AndIOp::create(b, b.compare(arith::CmpIPredicate::ne, lanes, i32(0)),
                                               b.compare(arith::CmpIPredicate::eq, carried[1], groups()));
          carried[0] = fromLane(b, through, i32(kWarp - 1));
          carried[1] = b.select(isHere, fromLane(b, group, lane), carried[1]);
          carried[2] = b.select(isHere, fromLane(b, firstTile, lane), carried[2]);
        });
    return {found[1], found[2]};
  }

  BlockKernel &k;
  KernelBuilder &b;
  const GroupedGemmForm &form_;
  const int64_t side_;
  const Type type_, result_;
  Type i32_ = b.getI32Type();
  SmallVector<Value> scalars_;
  Value block_, lane_;
};

/// A thread has 4 x 4 numbers of a tile of 64 x 64; shared memory holds 16 of the inner dimension at a time.
class GroupedFma {
public:
  GroupedFma(BlockKernel &kernel, const GroupedTile &tile) : k(kernel), b(kernel.b), tile_(tile) {
    thread_ = arith::TruncIOp::create(b, i32_, k.thread());
    column_ = b.mul(arith::AndIOp::create(b, thread_, i32(kSide / kOwn - 1)), i32(kOwn));
    row_ = b.mul(arith::DivUIOp::create(b, thread_, i32(kSide / kOwn)), i32(kOwn));
  }

  void emit() {
    Value a = k.shared(kDepth * kPitch * 4), bs = k.shared(kDepth * kPitch * 4);
    BlockKernel::Values sums(kOwn * kOwn, zero());
    sums = k.forRange(i32(0), tile_.inner, kDepth, sums, [&](Value first, BlockKernel::Values &carried) {
      k.barrier();
      load(tile_.a, first, a);
      load(tile_.b, first, bs);
      k.barrier();
      for (int64_t inner = 0; inner < kDepth; ++inner) {
        SmallVector<Value> left = numbers(a, inner, row_), right = numbers(bs, inner, column_);
        for (int64_t i = 0; i < kOwn * kOwn; ++i)
          carried[i] = b.fma(left[i / kOwn], right[i % kOwn], carried[i]);
      }
    });
    for (int64_t i = 0; i < kOwn * kOwn; ++i) {
      Value row = b.add(row_, i32(i / kOwn)), column = b.add(column_, i32(i % kOwn));
      k.ifThen(arith::AndIOp::create(b, less(row, tile_.rowsLeft), less(column, tile_.columnsLeft)),
               [&] { store(sums[i], row, column); });
    }
  }

private:
  static constexpr int64_t kSide = groupedTile(/*isNarrow=*/false), kOwn = 4, kDepth = 16, kPitch = kSide + kOwn;

  Value i32(int64_t value) { return b.integer(i32_, value); }
  Value wide(Value number) { return arith::ExtUIOp::create(b, b.getI64Type(), number); }
  Value zero() { return b.real(b.getF32Type(), 0.0); }
  Value less(Value x, Value y) { return b.compare(arith::CmpIPredicate::slt, x, y); }

  /// kDepth of the inner dimension from `first` on, each a row of shared memory; zeros where nothing is.
  void load(const GroupedFactor &factor, Value first, Value shared) {
    const int64_t across = factor.isCrossed ? kSide : kDepth; // neighbours in memory are neighbouring threads'
    for (int64_t turn = 0; turn < kSide * kDepth; turn += kGroupedFmaThreads) {
      Value number = b.add(thread_, i32(turn)), along = arith::RemUIOp::create(b, number, i32(across)),
            line = arith::DivUIOp::create(b, number, i32(across));
      Value outer = factor.isCrossed ? along : line, depth = factor.isCrossed ? line : along,
            inner = b.add(first, depth);
      Value exists = arith::AndIOp::create(b, less(outer, factor.outerLeft), less(inner, factor.innerLeft));
      Value row = factor.isCrossed ? inner : outer, column = factor.isCrossed ? outer : inner;
      Value value = k.choose(
          exists,
          [&] {
            Value at = b.add(b.mul(wide(row), factor.stride), wide(column));
            return b.load(b.address(factor.start, b.getF32Type(), at), b.getF32Type(), 1);
          },
          [&] { return zero(); });
      b.store(value, b.address(shared, b.getF32Type(), b.add(b.mul(depth, i32(kPitch)), outer)));
    }
  }

  SmallVector<Value> numbers(Value shared, int64_t inner, Value first) {
    Value vector = b.load(b.address(shared, b.getF32Type(), b.add(first, i32(inner * kPitch))), b.getF32Type(), kOwn,
                          kVectorBytes);
    SmallVector<Value> numbers;
    for (int64_t i = 0; i < kOwn; ++i)
      numbers.push_back(LLVM::ExtractElementOp::create(b, vector, i32(i)));
    return numbers;
  }

  void store(Value sum, Value row, Value column) {
    Value to = b.address(tile_.c, b.getF32Type(), b.add(b.mul(wide(row), tile_.stride), wide(column)));
    if (tile_.adds)
      sum = k.choose(tile_.adds, [&] { return b.add(b.load(to, b.getF32Type(), 1), sum); }, [&] { return sum; });
    b.store(sum, to);
  }

  BlockKernel &k;
  KernelBuilder &b;
  const GroupedTile &tile_;
  Type i32_ = b.getI32Type();
  Value thread_, row_, column_;
};

} // namespace

void codegen::emitFmaTile(BlockKernel &kernel, const GroupedTile &tile) {
  GroupedFma(kernel, tile).emit();
}

void codegen::emitGroupedTile(BlockKernel &kernel, const GroupedGemmForm &form, int64_t side,
                              llvm::function_ref<void(const GroupedTile &)> compute) {
  TileFinder(kernel, form, side).emit(compute);
}

KernelDescription KernelModule::addGpuGroupedGemm(const GroupedGemmForm &form) {
  const bool isNarrow = codegen::isNarrow(form.type);
  std::string name = "gpu_grouped_gemm";
  name += form.outer ? "_outer" : form.transposeB ? "_transposed" : "";
  name += typeSuffix(form.type);
  if (isNarrow)
    name += std::string(form.result.isF32() ? "_f32" : "") + (form.isWhole ? "" : "_cut");
  const int64_t threads = isNarrow ? kGroupedMmaThreads : kGroupedFmaThreads;
  return deviceService(*state_, name, {false, false, false, true}, form.outer ? 5 : 4, threads, 1, [&](BlockKernel &k) {
    if (isNarrow)
      return emitGroupedMma(k, form);
    emitGroupedTile(k, form, groupedTile(isNarrow), [&](const GroupedTile &tile) { emitFmaTile(k, tile); });
  });
}

} // namespace ztc
