"""Helpers of the end-to-end tests; Python's standard library only."""
import array
import json
import math
import os
import pathlib
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("ZTC_BIN", ROOT / "build/bin"))
BUILD = pathlib.Path(os.environ.get("ZTC_BUILD", BIN.parent))
GOLDEN = ROOT / "tests/golden"
failures = []


def check(name, good, detail=""):
    """Prints one line and remembers a failure."""
    print(f"{'ok  ' if good else 'FAIL'} {name} {detail}", flush=True)
    if not good:
        failures.append(name)


def finish():
    print(f"{len(failures)} failures")
    sys.exit(1 if failures else 0)


def run(program, *arguments, expect=0, timeout=240, **more):
    """Runs a ztc program; `expect` is its exit status, or None for any. Returns the finished process."""
    command = [str(BIN / program), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, **more)
    if expect is not None and done.returncode != expect:
        print("$", " ".join(command))
        print(done.stdout[-2000:], done.stderr[-4000:], sep="\n")
        check(f"{program} exits with {expect}", False, f"(it was {done.returncode})")
    return done


def stand_ins(gpus=None, environment=os.environ, **variables):
    """The environment of a program whose GPUs and libraries are those of tests/standin: `gpus` of them, one by default. What a stand-in takes longest for
    says nothing: no algorithm is measured."""
    return {**environment, "ZTC_CUDA_TUNE": "0", "ZTC_STAND_INS": str(BUILD / "lib/standin"), **({} if gpus is None else {"ZTC_STAND_IN_GPUS": str(gpus)}), **variables}


def free_port():
    """A free port whose neighbour is free too: torchrun takes the first, ztc-run the second."""
    while True:
        with socket.socket() as one, socket.socket() as two:
            one.bind(("127.0.0.1", 0))
            try:
                two.bind(("127.0.0.1", one.getsockname()[1] + 1))
            except OSError:
                continue
            return one.getsockname()[1]


def descendants(pid):
    """Process ids below `pid`, in the order in which they were started."""
    children = {}
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            continue
        children.setdefault(parent, []).append(int(entry.name))
    found, todo = [], [pid]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return sorted(found)


def arguments_of(pid):
    """Of a process, its program first; empty bytes alone where it has ended."""
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return [b""]


def rank_processes(pid, plan):
    """The ranks below a launcher, in rank order: processes with the plan in their arguments."""
    def is_rank(p):
        words = arguments_of(p)
        return words[0].endswith(b"ztc-run") and str(plan).encode() in words
    return [p for p in descendants(pid) if is_rank(p)]


def is_alive(pid):
    """False for a process that is gone or only waits to be reaped."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_until(condition, seconds):
    """Polls until the condition holds; its last value."""
    deadline = time.monotonic() + seconds
    while not (value := condition()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return value


class Running:
    """A program that was started and is ended with all its children when the block ends."""

    def __init__(self, command, **more):
        self.started = time.monotonic()
        self.process = subprocess.Popen([str(x) for x in command], text=True, **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more})
        self.pid = self.process.pid
        self.out = self.err = ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for pid in descendants(self.pid) + [self.pid]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.communicate()

    def finish(self, seconds):
        """Its exit status, or None where it did not end in time. Fills out and err."""
        try:
            self.out, self.err = self.process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            return None
        return self.process.returncode


def scratch():
    """A temporary folder as a context manager that gives a path."""
    class Folder(tempfile.TemporaryDirectory):
        def __enter__(self):
            return pathlib.Path(super().__enter__())
    return Folder(prefix="ztc-test-")


def raw_tensors(path):
    """name: (type, shape, bytes) of a file in safetensors."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    return {name: (t["dtype"], t["shape"], data[8 + size + t["data_offsets"][0]:8 + size + t["data_offsets"][1]])
            for name, t in json.loads(data[8:8 + size]).items() if name != "__metadata__"}


def first_step(work, plan, data, *arguments, lr=0, expect=0):
    """One step on the CPU, by default at a rate of 0: the weights stay as they are. The run, and the log's record of the step, None where it failed."""
    log = work / f"log{len(list(work.glob('log*')))}"
    done = run("ztc-run", plan, f"--data={data}", "--steps=1", f"--lr={lr}", "--warmup=0", "--weight-decay=0", "--device=cpu", f"--log-json={log}", *arguments, expect=expect)
    return done, read_log(log)[1][0] if done.returncode == 0 else None


def small_disk(stack, folder, size, what):
    """Makes `folder` a file system of its own of `size` ("4m") until `stack` (an ExitStack) ends. False, with a line that names `what` is left out, where that takes more than the
    test may do."""
    folder.mkdir()
    if os.geteuid() == 0 and subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], capture_output=True).returncode == 0:
        stack.callback(subprocess.run, ["umount", "-l", str(folder)])
        return True
    print(f"left out (needs root and tmpfs): {what}")
    return False


def write_tiny_llama(folder, vocabulary, **fields):
    """A Hugging Face folder with the configuration of a Llama of one layer, but for the `fields` given; its weights are fresh. The folder."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2,
        "num_key_value_heads": 1, "vocab_size": vocabulary, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu",
        "tie_word_embeddings": False, "initializer_range": 0.02, **fields}))
    return folder


def read_safetensors(path):
    """name -> (shape, array of floats or integers)."""
    data = pathlib.Path(path).read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    codes = {"F32": "f", "F64": "d", "I64": "q", "I32": "i", "U8": "B"}
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            values = array.array(codes[entry["dtype"]])
            values.frombytes(data[8 + size + begin:8 + size + end])
            tensors[name] = (entry["shape"], values)
    return tensors


def write_safetensors(path, tensors):
    """tensors: name -> (shape, array.array of type q, i or f)."""
    codes = {"f": "F32", "q": "I64", "i": "I32"}
    header, blob = {}, b""
    for name, (shape, values) in tensors.items():
        raw = values.tobytes()
        header[name] = {"dtype": codes[values.typecode], "shape": list(shape), "data_offsets": [len(blob), len(blob) + len(raw)]}
        blob += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + blob)


def tensor_files(folder):
    """The files with tensors of a checkpoint or an export, as bytes by name."""
    return {path.name: path.read_bytes() for path in sorted(pathlib.Path(folder).glob("*.safetensors"))}


def values_of(folder, kind="model"):
    """name -> (shape, values) of a checkpoint's or an export's tensors of one kind: "model", or a state of the optimizer such as "exp_avg"."""
    return {name: tensor for path in sorted(pathlib.Path(folder).glob("*.safetensors")) if re.split("[-.]", path.name)[0] == kind
            for name, tensor in read_safetensors(path).items()}


def tensors(folder, *kinds):
    """(kind, name) -> (shape, bytes) of a checkpoint's or an export's tensors, of these kinds or of all: what does not depend on the number of ranks, as files do."""
    return {(kind, name): (shape, values.tobytes()) for kind in kinds or sorted({path.name.split("-")[0] for path in folder.glob("*-of-*.safetensors")})
            for name, (shape, values) in values_of(folder, kind).items()}


def repeated_rows(source, folder, world):
    """A file with the rows of `source`, each step's followed by copies whose targets do not count, for `world` ranks: ranks but the first add nothing to sums,
    so that all bits are those of one rank."""
    rows = read_safetensors(source)
    (steps, batch, length), found = rows["input_ids"][0], {}
    for name, (_, values) in rows.items():
        each, found[name] = len(values) // steps, ((steps, batch * world, length), array.array("q"))
        for step in range(steps):
            own = values[step * each:(step + 1) * each]
            found[name][1].extend(own + (own if name == "input_ids" else array.array("q", [-100] * each)) * (world - 1))
    path = folder / f"rows-{world}.safetensors"
    write_safetensors(path, found)
    return path


def read_summary(path):
    """The last summary of a --log-json file."""
    return [x for x in map(json.loads, pathlib.Path(path).read_text().splitlines()) if x.get("event") == "summary"][-1]


def read_log(path):
    """(run header, steps) of a --log-json file."""
    lines = [json.loads(x) for x in pathlib.Path(path).read_text().splitlines() if x.strip()]
    return lines[0], [x for x in lines[1:] if "loss" in x and not x.get("event")]


def check_curves(name, steps, golden, *curves):
    """Holds what a log says of each step against a golden run; each curve: the log's key, the golden's, the largest error and whether that is relative."""
    for what, key, limit, relative in curves:
        errors = [abs(s[what] - w) / (abs(w) if relative else 1) for s, w in zip(steps, golden[key])]
        check(f"{name}: {what} over {len(golden[key])} steps", len(errors) == len(steps) == len(golden[key]) > 0 and max(errors) <= limit, max(errors, default=None))


def l2(values):
    return math.sqrt(sum(x * x for x in values))


def gradient_errors(mine, want, floor=1e-3):
    """Of each tensor of `want` the relative L2 error; what its length is divided by is at least `floor` of the longest one's."""
    largest = max(l2(values) for _, values in want.values())
    return {name: l2([a - b for a, b in zip(mine[name][1], values)]) / max(l2(values), floor * largest) for name, (_, values) in want.items()}


def numbers(steps):
    """Of the steps of a log what runs with equal bits have in common."""
    return [(x["loss"], x["grad_norm"]) for x in steps]


def train_golden(work, plan, folder, golden, *more, steps=None, **environment):
    """Trains a plan on the data of a golden run, on the CPU where `more` names no GPUs: the gradients of the first step and the log's steps, both empty where the run fails."""
    gradients, log = work / "gradients", work / "log"
    log.unlink(missing_ok=True)
    arguments = [x for x in optimizer_arguments(golden) if "--device" not in x]
    if not any(str(x).startswith("--gpus") for x in more):
        arguments.append("--device=cpu")
    done = run("ztc-run", plan, f"--data={folder / 'data.safetensors'}", f"--steps={steps or golden['steps']}", f"--log-json={log}", f"--dump-gradients={gradients}",
               *arguments, *more, **environment)
    return (read_safetensors(gradients), read_log(log)[1]) if done.returncode == 0 else ({}, [])


def check_run(folder, golden, plan, work, loss, gradient, run_limit, norm):
    """Trains a plan as golden.json says and holds first loss, every gradient, losses, norms and learning rates against PyTorch's; the log, or None."""
    name = folder.name
    done = run("ztc-run", plan, f"--data={folder / 'data.safetensors'}", f"--steps={golden['steps']}",
               f"--log-json={work / 'log'}", "--overwrite", f"--dump-gradients={work / 'gradients'}", *optimizer_arguments(golden))
    if done.returncode:
        return None
    head, steps = read_log(work / "log")
    check(f"{name}: first loss", abs(steps[0]["loss"] - golden["losses"][0]) <= loss, abs(steps[0]["loss"] - golden["losses"][0]))
    mine, want = read_safetensors(work / "gradients"), read_safetensors(folder / "golden.safetensors")
    check(f"{name}: gradients have PyTorch's names", set(mine) == set(want), sorted(set(mine) ^ set(want))[:4])
    largest, worst = max(l2(v) for _, v in want.values()), (0.0, "")
    for tensor in set(mine) & set(want):
        (shape, g), (expected, w) = mine[tensor], want[tensor]
        check(f"{name}: shape of {tensor}", shape == expected) if shape != expected else None
        error = l2([a - b for a, b in zip(g, w)]) / max(l2(w), 1e-3 * largest)
        worst = max(worst, (error, tensor))
    check(f"{name}: worst gradient, relative L2", worst[0] <= gradient and worst[1], worst)
    check(f"{name}: every step is there", len(steps) == golden["steps"], len(steps))
    check_curves(name, steps, golden, ("loss", "losses", run_limit, False), ("grad_norm", "gradient_norms", norm, True), ("lr", "rates", 1e-5, True))
    return head, steps


def compile_golden(folder, name, *arguments, batch=2, seq=16):
    """Compiles tests/golden/<name>, in fp32 where nothing else is asked for, and returns the plan's path."""
    if not any(str(x).startswith("--precision=") for x in arguments):
        arguments = ("--precision=fp32", *arguments)
    plan = folder / f"{name}.bin"
    run("ztc", "compile", GOLDEN / name / "model.onnx", f"--batch={batch}", f"--seq={seq}", "-o", plan, *arguments)
    return plan


def optimizer_arguments(golden):
    """The options that repeat the optimizer of golden.json."""
    return [f"--lr={golden['lr']}", f"--beta1={golden['betas'][0]}", f"--beta2={golden['betas'][1]}", f"--epsilon={golden['epsilon']}",
            f"--weight-decay={golden['weight_decay']}", f"--clip={golden['clip']}", f"--warmup={golden['warmup']}",
            f"--min-lr-ratio={golden['min_lr_ratio']}", "--schedule=cosine", "--device=cpu", "--no-save"]
