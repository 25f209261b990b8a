"""Token files as ztc-run reads them: safetensors with input_ids and labels, I32, [rows, 1, S], and where targets have weights other than 1 loss_weights, F32.
Python's standard library only."""
import array
import json
import os
import shutil
import struct

IGNORED = -100


class TokenFile:
    """Writes row by row; the file gets its name when it is complete. Labels wait in a file of their own: memory stays small."""

    def __init__(self, path, seq):
        self.path, self.seq, self.rows, self.is_weighted = path, seq, 0, False
        self.parts = [f"{path}.tmp-{os.getpid()}-{name}" for name in ("input_ids", "labels", "loss_weights")]
        self.files = [open(part, "wb") for part in self.parts]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for file, part in zip(self.files, self.parts):
            file.close()
            if os.path.exists(part):
                os.unlink(part)

    def add(self, tokens, counted, padding):
        """Cuts or pads to S tokens. `counted`: of each token False, or what its loss is multiplied by."""
        missing = self.seq - len(tokens)
        row = array.array("i", tokens[:self.seq])
        labels = array.array("i", [t if c else IGNORED for t, c in zip(row, counted)])
        if missing > 0:
            row.extend([padding] * missing)
            labels.extend([IGNORED] * missing)
        weights = array.array("f", [float(c) if c else 1.0 for c in counted[:self.seq]] + [1.0] * max(missing, 0))
        self.is_weighted |= any(weight != 1 for weight in weights)
        for file, values in zip(self.files, (row, labels, weights)):
            values.tofile(file)
        self.rows += 1

    def complete(self):
        for file in self.files:
            file.close()
        size = self.rows * self.seq * 4
        shape = [self.rows, 1, self.seq]
        names = ["input_ids", "labels"] + ["loss_weights"] * self.is_weighted
        header = json.dumps({name: {"dtype": "F32" if name == "loss_weights" else "I32", "shape": shape, "data_offsets": [i * size, (i + 1) * size]}
                             for i, name in enumerate(names)}).encode()
        header += b" " * (-len(header) % 8)
        whole = f"{self.path}.tmp-{os.getpid()}"
        try:
            with open(whole, "wb") as out:
                out.write(struct.pack("<Q", len(header)) + header)
                for part in self.parts[:len(names)]:
                    with open(part, "rb") as file:
                        shutil.copyfileobj(file, out, 1 << 20)
                out.flush()
                os.fsync(out.fileno())
            os.replace(whole, self.path)
        finally:
            if os.path.exists(whole):
                os.unlink(whole)
