// What a run does with text: the tokenizer that it names, tokens of text files, text that a model writes.
#pragma once
#include "runtime/Core/Status.h"
#include "runtime/Ranks/ControlChannel.h"
#include "runtime/Text/TokenFile.h"
#include "runtime/Train/Options.h"
#include "runtime/Train/Progress.h"
#include "runtime/Train/Session.h"
#include <cstdio>
#include <memory>

namespace ztc {

/// That of --tokenizer=DIR; null without it.
StatusOr<std::shared_ptr<const TokenizerFolder>> openTokenizer(const RunOptions &options);
/// How text files become tokens, with progress for a person and for the watchdog. All arguments outlive the result.
TextOptions textOptions(const RunOptions &options, std::shared_ptr<const TokenizerFolder> tokenizer,
                        ControlChannel &control, Progress &progress);

/// Writes what the model makes of each prompt to `out`, which is null on ranks that are silent. False where a signal
/// ended it.
StatusOr<bool> generateForPrompts(const RunOptions &options, Session &session, ControlChannel &control, std::FILE *out);

} // namespace ztc
