// What a run does with text: the tokenizer that it names, tokens of text files.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Ranks/ControlChannel.h"
#include "runtime/Text/TokenFile.h"
#include "runtime/Train/Options.h"
#include "runtime/Train/Progress.h"
#include <memory>

namespace ztc {

/// That of --tokenizer=DIR; null without it.
StatusOr<std::shared_ptr<const TokenizerFolder>> openTokenizer(const RunOptions &options);
/// How text files become tokens, with progress for a person and for the watchdog. All arguments outlive the result.
TextOptions textOptions(const RunOptions &options, std::shared_ptr<const TokenizerFolder> tokenizer,
                        ControlChannel &control, Progress &progress);

} // namespace ztc
