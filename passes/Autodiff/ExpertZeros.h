// Which values of a function are 0, or another constant, where a token did not choose an expert: shares of experts, in
// whatever way a model computes them, and what they multiply.
#pragma once
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/Autodiff/Digits.h"

namespace ztc {

/// A number for each token: column `column` of `value`, whose elements are (T, perToken) in whatever shape.
struct TokenColumn {
  mlir::Value value;
  int64_t column = 0, perToken = 1;
  bool operator==(const TokenColumn &other) const {
    return value == other.value && column == other.column && perToken == other.perToken;
  }
};

using TokenColumns = llvm::SmallVector<TokenColumn, 2>;

/// What is known of a value of each token and expert, or of each token and one expert: it is `outside` where the expert
/// is not one of the token's choices.
struct ExpertZeros {
  Digit tokens{1, 1};
  std::optional<Digit> experts; ///< none: the value is of the one expert `expert`
  int64_t expert = 0;
  std::optional<Digit> choice; ///< where an element is about one of the K choices alone: which
  int64_t count = 0;           ///< E: choices are from 0 to E - 1
  TokenColumns choices;        ///< K numbers of experts
  double outside = 0;
  std::optional<double> inside; ///< the value where the expert is one of the choices
  TokenColumns weights;         ///< the value where it is choice k: `weights[k]`; empty where that is not known

  /// Whether both are of the same elements: equal digits, or experts.
  bool hasFrameOf(const ExpertZeros &other) const;
};

/// What a function's values are where experts were not chosen. Choices are what a top-k or a maximum's place gives, and
/// places to which shares are scattered.
class ExpertZeroAnalysis {
public:
  explicit ExpertZeroAnalysis(mlir::func::FuncOp function);

  /// Takes in an op that was made since, after those that it reads.
  void learn(mlir::Operation &op) { note(op); }
  /// What is known of `value`; null where nothing is.
  const ExpertZeros *of(mlir::Value value) const;
  /// Whether a token's choices differ: each is found among what the ones in front of it left over.
  bool areDistinct(llvm::ArrayRef<TokenColumn> choices) const;
  /// Among how many numbers `value` is the place of the largest, for each token; 0 where it is none.
  int64_t searchedNumbers(mlir::Value value) const { return maxima.contains(value) ? numbers.lookup(value).count : 0; }

private:
  /// Numbers of experts: `choice` where one value has several for each token.
  struct Numbers {
    Digit tokens{1, 1};
    std::optional<Digit> choice;
    TokenColumns columns;
    int64_t count = 0;
  };
  /// The place of a maximum: among `x`, from which the places `without` are taken.
  struct Maximum {
    mlir::Value x;
    TokenColumns without;
  };

  void note(mlir::Operation &op);
  std::optional<Numbers> numbersOf(mlir::Operation &op);
  std::optional<Numbers> placeOfMaximum(mlir::Operation &op);
  std::optional<ExpertZeros> zerosOf(mlir::Operation &op);
  std::optional<ExpertZeros> ofComparison(mlir::Operation &op);
  std::optional<ExpertZeros> ofElements(mlir::Operation &op);
  std::optional<ExpertZeros> ofPlaced(mlir::Operation &op);
  std::optional<ExpertZeros> ofProduct(mlir::Operation &op);
  std::optional<ExpertZeros> ofSum(mlir::Operation &op);
  std::optional<ExpertZeros> ofParts(mlir::Operation &op);
  TokenColumns weightsOf(mlir::Value value, const ExpertZeros &frame) const;
  void findInside(mlir::Operation &op, const ExpertZeros &from, ExpertZeros &zeros) const;

  llvm::DenseMap<mlir::Value, Numbers> numbers;
  llvm::DenseMap<mlir::Value, Maximum> maxima;
  llvm::DenseMap<mlir::Value, ExpertZeros> zeros;
};

} // namespace ztc
