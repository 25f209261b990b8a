#!/usr/bin/env python3
"""ZeRO 0 to 3 on 1, 2 and 3 ranks of one process: with one micro-step all stages give the same bits, with two 0 = 1 and 2 = 3;
what ranks send is what the plan says; the same global batch gives the same losses and norms on other ranks."""
import struct
import subprocess
import sys
from support import BIN, check, compile_golden, finish, scratch

TOOL = BIN / "steps-of-ranks"
STEPS = 3


def steps(plan, world, accumulate):
    """What the plan computed: the lines that must be equal, (loss, norm) by step, (sent, expected)."""
    done = subprocess.run([TOOL, plan, str(world), str(accumulate), str(STEPS)], capture_output=True, text=True, timeout=60)
    if done.returncode:
        check(f"{plan.parent.name} on {world} ranks", False, done.stderr.strip())
        return None
    lines = [line for line in done.stdout.splitlines() if not line.startswith("sent")]
    sent = [line.split()[1::2] for line in done.stdout.splitlines() if line.startswith("sent")]
    numbers = [[0.0, 0.0] for _ in range(STEPS)]
    for line in lines[:-1]:
        words = line.split()
        loss, norm = (struct.unpack(">f", bytes.fromhex(words[i]))[0] for i in (5, 7))
        numbers[int(words[3])][0] += loss
        numbers[int(words[3])][1] = norm
    return lines, numbers, sent


def close(a, b):
    return all(abs(x - y) <= 2e-5 * abs(y) for left, right in zip(a, b) for x, y in zip(left, right))


if not TOOL.exists():
    print(f"{TOOL} is not built")
    sys.exit(77)
with scratch() as work:
    for name in ("head-norms", "tied"):
        plans = []
        for zero in range(4):
            folder = work / f"{name}-{zero}"
            folder.mkdir()
            plans.append(compile_golden(folder, name, f"--zero={zero}"))
        alone = steps(plans[0], 1, 6)
        for world, accumulate in ((1, 1), (1, 2), (2, 1), (2, 3), (3, 1), (3, 2)):
            results = [steps(plan, world, accumulate) for plan in plans]
            if None in results or alone is None:
                continue
            case = f"{name}: {world} ranks, {accumulate} micro-steps"
            lines = [result[0] for result in results]
            check(f"{case}: every step is there", all(len(l) == world * STEPS + 1 for l in lines))
            check(f"{case}: stage 1 = 0", lines[1] == lines[0])
            check(f"{case}: stage 3 = 2", lines[3] == lines[2])
            if accumulate == 1:
                check(f"{case}: stage 2 = 0", lines[2] == lines[0])
            for zero, (_, numbers, sent) in enumerate(results):
                check(f"{case}: stage {zero} sends what the plan says", all(a == b for a, b in sent), sent)
                if world * accumulate == 6:
                    check(f"{case}: stage {zero} is right on this many ranks", close(numbers, alone[1]), (numbers, alone[1]))
finish()
