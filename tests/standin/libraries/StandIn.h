// What the stand-in libraries share: the streams of the stand-in driver, and how misuse is told.
#pragma once
#include "runtime/Device/cuda/CudaApi.h"
#include <cstdint>
#include <functional>
#include <string>

namespace ztc::standin {

/// Puts work at the end of a stream; it runs in the stream's thread. False: there is no such stream.
bool enqueue(cuda::Stream stream, std::function<void()> work);

/// From the thread of a stream: its work takes so long by the clock of events, however long it really takes. Between
/// two events of a stream with such work nothing else counts.
void stateTime(double milliseconds);

/// True where [address, address + bytes) lies in one live allocation of device memory.
bool isDeviceMemory(const void *address, uint64_t bytes);

/// Bytes of device memory that are in use, the context's own 64 MiB among them.
uint64_t usedBytes();

/// The caller did what a real library might not survive: tells it on stderr and, from the thread of a stream, fails the
/// context for good, as an error of a kernel does.
void misuse(const std::string &what);

} // namespace ztc::standin
