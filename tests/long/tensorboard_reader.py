"""What TensorBoard's own reader finds in the event files of a run, a resumed one too: the log's numbers."""
import json
import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from support import GOLDEN, check, compile_golden, finish, run, scratch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

DATA = GOLDEN / "grouped" / "data.safetensors"
single = lambda x: struct.unpack("<f", struct.pack("<f", x))[0]

with scratch() as work:
    plan = compile_golden(work, "grouped")
    common = [plan, f"--data={DATA}", "--device=cpu", "--threads=1", "--steps=10", f"--save={work / 'ck'}", f"--log-json={work / 'log'}", f"--tensorboard={work / 'events'}",
              f"--eval-data={DATA}", "--eval-every=5"]
    run("ztc-run", *common, "--stop-after=6")
    run("ztc-run", *common, f"--resume={work / 'ck'}")
    lines = [json.loads(x) for x in (work / "log").read_text().splitlines()]
    steps = [x for x in lines if "loss" in x]
    evals = {x["step"]: x["eval_loss"] for x in lines if x.get("event") == "eval"}

    files = sorted((work / "events").iterdir())
    check("a file for each part of the run", len(files) == 2, files)
    for file in files:
        versions = [e.file_version for e in EventFileLoader(str(file)).Load() if e.HasField("file_version")]
        check(f"{file.name[:30]}: one version", versions == ["brain.Event:2"], versions)
    events = EventAccumulator(str(work / "events"), size_guidance={"scalars": 0})
    events.Reload()
    check("the curves", {"train/loss", "train/gradient_norm", "train/learning_rate", "speed/tokens_per_second", "eval/loss"} <= set(events.Tags()["scalars"]), events.Tags())
    for tag, key in (("train/loss", "loss"), ("train/gradient_norm", "grad_norm"), ("train/learning_rate", "lr")):
        check(f"{tag} is the log's", [(e.step, e.value) for e in events.Scalars(tag)] == [(x["step"], single(x[key])) for x in steps], events.Scalars(tag)[:2])
    check("evaluations", {e.step: e.value for e in events.Scalars("eval/loss")} == {step: single(loss) for step, loss in evals.items()}, events.Scalars("eval/loss"))
    times = [e.wall_time for e in events.Scalars("train/loss")]
    check("times ascend", times == sorted(times) and times[0] > 1.7e9, times[:2])
finish()
