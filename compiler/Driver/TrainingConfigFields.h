// What is known of single fields of other trainers' configurations.
#pragma once
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <optional>
#include <string>
#include <utility>

namespace ztc::driver {

/// What transformers.TrainingArguments has where nothing is said: name and value.
llvm::ArrayRef<std::pair<llvm::StringLiteral, llvm::StringLiteral>> defaultArguments();
/// One of them; "" where there is none of that name.
llvm::StringRef defaultArgument(llvm::StringRef name);
/// Why nothing that a training depends on is lost without the field; "" where something may be.
llvm::StringRef whyUnneeded(llvm::StringRef field);
/// A schedule by the name that transformers has for it; "" where ztc-run has none.
std::string scheduleNamed(llvm::StringRef name);
/// An optimizer by the names of transformers, bitsandbytes and DeepSpeed: its own name, and the type of its states.
std::pair<std::string, std::string> optimizerNamed(llvm::StringRef name);

/// "true", "yes" or "on", in letters of any size.
bool saysYes(llvm::StringRef text);
/// "false", "no", "off", "none", "null", "~", or empty.
bool asksForNothing(llvm::StringRef text);
/// A whole text that is a number.
std::optional<double> numberIn(llvm::StringRef text);
/// Which numbers an option takes, where `text` is none of them; "" where it is, and for options that take other words.
std::string problemOfNumber(llvm::StringRef option, llvm::StringRef text);

} // namespace ztc::driver
