// What is known of single fields of other trainers' configurations.
#pragma once
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <utility>

namespace ztc::driver {

/// What transformers.TrainingArguments has where nothing is said: name and value.
llvm::ArrayRef<std::pair<llvm::StringLiteral, llvm::StringLiteral>> defaultArguments();
/// One of them; "" where there is none of that name.
llvm::StringRef defaultArgument(llvm::StringRef name);
/// Why nothing that a training depends on is lost without the field; "" where something may be.
llvm::StringRef whyUnneeded(llvm::StringRef field);

} // namespace ztc::driver
