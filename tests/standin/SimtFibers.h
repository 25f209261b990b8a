// Stacks, the switch between them, and what sanitizers want to know about both.
#pragma once
#include <cstddef>

/// Saves the callee's registers on this stack, its pointer in *save, and goes on where `to` was saved.
extern "C" void ztcSimtSwitch(void **save, void *to);

namespace ztc::simt {

/// Bytes of one fiber's stack, without its guard page.
inline constexpr size_t kStackBytes = size_t(128) << 10;

/// A stack whose use below its lowest byte ends the process. Null where memory is out.
std::byte *makeStack();
/// What ztcSimtSwitch takes to begin `start` on an empty stack. `start` must not return.
void *beginOn(std::byte *stack, void (*start)());

// No operations unless the build has AddressSanitizer or ThreadSanitizer.
void *makeSanitizerFiber();
void *currentSanitizerFiber();
/// Before a switch: away from a stack, which may be finished with, to another one.
void leaveFor(void **fakeStack, bool last, const void *bottom, size_t bytes, void *fiber);
/// After a switch: says where it came from.
void arrive(void *fakeStack, const void **fromBottom, size_t *fromBytes);
/// Forgets what an abandoned fiber left on its stack.
void cleanStack(std::byte *stack);
/// Orders memory accesses before release(p) ahead of those behind acquire(p).
void release(void *token);
void acquire(void *token);

} // namespace ztc::simt
