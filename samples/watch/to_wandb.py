#!/usr/bin/env python3
"""Follows the JSON log of ztc-run into Weights & Biases, while the run goes on or afterwards.

    ztc-run plan.bin --data tokens.bin --steps 1000 --log-json run.jsonl &
    pip install wandb && samples/watch/to_wandb.py run.jsonl --project my-models

The run in W&B has the id of the ztc run: after a resume the same curves go on. --dry-run prints instead of sending.
"""
import argparse
import json
import pathlib
import sys
import time


def lines(path, follow, patience):
    """Complete lines of a file, as they come; until the run's summary, or nothing new for `patience` seconds."""
    rest, last = "", time.monotonic()
    with path.open() as file:
        while True:
            text = file.read()
            if text:
                last = time.monotonic()
                *whole, rest = (rest + text).split("\n")
                yield from whole
            elif not follow or time.monotonic() - last > patience:
                return
            else:
                time.sleep(1)


class DryRun:
    """Takes the place of a W&B run."""

    def __init__(self, **settings):
        print("init", json.dumps({key: value for key, value in settings.items() if key != "config"}))
        self.summary = {}

    def log(self, values, step):
        print(step, json.dumps(values))

    def finish(self):
        print("summary", json.dumps(self.summary))


def points(line):
    """(step, values) of one object of the log, or None."""
    if line.get("event") == "eval":
        return line["step"], {f"eval/{line['name']}/loss" if "name" in line else "eval/loss": line["eval_loss"]}
    if "event" in line or "step" not in line:
        return None
    names = {"loss": "train/loss", "grad_norm": "train/gradient_norm", "lr": "train/learning_rate", "loss_scale": "train/loss_scale",
             "tokens_per_second": "speed/tokens_per_second", "step_ms": "speed/step_milliseconds", "sent_bytes": "speed/sent_bytes"}
    return line["step"], {name: line[key] for key, name in names.items() if line.get(key) is not None}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("log", type=pathlib.Path)
    parser.add_argument("--project", default="ztc")
    parser.add_argument("--name", help="of the run in W&B; default: the log's")
    parser.add_argument("--no-follow", action="store_true", help="send what is there and end")
    parser.add_argument("--patience", type=float, default=3600, help="seconds without a new line after which the run counts as over")
    parser.add_argument("--dry-run", action="store_true", help="print instead of sending; needs no package")
    options = parser.parse_args()
    run = None
    for text in lines(options.log, not options.no_follow, options.patience):
        line = json.loads(text)
        if "plan_sha256" in line:
            if run is None:
                settings = dict(project=options.project, id=line.get("run"), name=options.name or options.log.stem, resume="allow", config=line)
                if options.dry_run:
                    run = DryRun(**settings)
                else:
                    import wandb
                    run = wandb.init(**settings)
            continue
        if run is None:
            sys.exit(f"{options.log}: does not begin as a log of ztc-run does")
        if line.get("event") == "summary":
            run.summary.update({key: value for key, value in line.items() if key != "event"})
            if not options.no_follow:
                break
        elif found := points(line):
            run.log(found[1], step=found[0])
    if run is None:
        sys.exit(f"{options.log}: is empty")
    run.finish()


if __name__ == "__main__":
    main()
