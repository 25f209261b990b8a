// Stopping at a step boundary: signals only set a flag.
#pragma once

namespace ztc {

/// From now on SIGTERM, SIGINT and SIGUSR1 ask for a stop; a second SIGINT ends the process at once.
/// For the program's main; installing twice is harmless.
void installStopSignals();

/// The signal that asked for a stop, or 0.
int stopSignal();

/// Forgets the request: for tests.
void clearStopSignal();

/// SIGTERM, SIGINT, SIGUSR1, or "signal".
const char *stopSignalName(int signal);

} // namespace ztc
