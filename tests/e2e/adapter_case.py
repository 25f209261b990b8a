"""What the tests of adapters have in common: a golden of tests/golden/adapters, compiled and run."""
import array
import json
import shutil

from support import GOLDEN, ROOT, optimizer_arguments, read_log, run, write_safetensors

CASES = GOLDEN / "adapters"


class Case:
    """A golden with the folder that it is of, and its rows as a file."""

    def __init__(self, name, work):
        self.name, self.work, self.adapter = name, work, CASES / name
        self.golden = json.loads((self.adapter / "golden.json").read_text())
        self.folder = ROOT / "tests/folders" / self.golden["folder"]
        if "config" in self.golden:
            self.folder = shutil.copytree(self.folder, work / "folder")
            config = self.folder / "config.json"
            config.write_text(json.dumps(json.loads(config.read_text()) | self.golden["config"]))
        self.model = json.loads((self.folder / "golden.json").read_text())
        self.shape = [self.model["batch"], self.model["seq"]]
        self.data = work / "data.safetensors"
        write_safetensors(self.data, {key: ([self.model["steps"], *self.shape], array.array("q", [x for b in self.model[key] for row in b for x in row]))
                                      for key in ("input_ids", "labels")})

    def compile(self, plan, *arguments, adapter=None, batch=None, precision="fp32", target="host", expect=0):
        return run("ztc", "compile", self.folder, "-o", plan, f"--target={target}", f"--batch={batch or self.shape[0]}", f"--seq={self.shape[1]}", f"--precision={precision}",
                   f"--adapter={adapter or self.adapter}", *([f"--quantize={self.golden['quantize']}"] if "quantize" in self.golden else []), *(f"--lr-of={x}" for x in self.golden.get("lr_of", [])), *arguments, expect=expect)

    def run(self, plan, *arguments, steps=None, expect=0, env=None):
        log = self.work / f"log{len(list(self.work.glob('log*')))}"
        optimizer = [x for x in optimizer_arguments(self.model["optimizer"]) if x != "--no-save" or not any(str(y).startswith("--save=") for y in arguments)]
        device = ["--device=cpu"] if any(str(x).startswith("--gpus") for x in arguments) else []
        optimizer = [x for x in optimizer if x not in device]
        done = run("ztc-run", plan, f"--data={self.data}", f"--steps={steps or self.model['steps']}", f"--log-json={log}", *optimizer, *arguments, expect=expect, env=env)
        return done, read_log(log)[1] if done.returncode == 0 else None
