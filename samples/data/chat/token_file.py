"""Token files as ztc-run reads them: safetensors with input_ids and labels, I32, [rows, 1, S]. Python's standard library only."""
import array
import json
import os
import shutil
import struct

IGNORED = -100


class TokenFile:
    """Writes row by row; the file gets its name when it is complete. Labels wait in a file of their own: memory stays small."""

    def __init__(self, path, seq):
        self.path, self.seq, self.rows = path, seq, 0
        self.parts = [f"{path}.tmp-{os.getpid()}-{name}" for name in ("input_ids", "labels")]
        self.files = [open(part, "wb") for part in self.parts]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for file, part in zip(self.files, self.parts):
            file.close()
            if os.path.exists(part):
                os.unlink(part)

    def add(self, tokens, counted, padding):
        """Cuts or pads to S tokens."""
        missing = self.seq - len(tokens)
        row = array.array("i", tokens[:self.seq])
        labels = array.array("i", [t if c else IGNORED for t, c in zip(row, counted)])
        if missing > 0:
            row.extend([padding] * missing)
            labels.extend([IGNORED] * missing)
        for file, values in zip(self.files, (row, labels)):
            values.tofile(file)
        self.rows += 1

    def complete(self):
        for file in self.files:
            file.close()
        size = self.rows * self.seq * 4
        shape = [self.rows, 1, self.seq]
        header = json.dumps({"input_ids": {"dtype": "I32", "shape": shape, "data_offsets": [0, size]},
                             "labels": {"dtype": "I32", "shape": shape, "data_offsets": [size, 2 * size]}}).encode()
        header += b" " * (-len(header) % 8)
        whole = f"{self.path}.tmp-{os.getpid()}"
        try:
            with open(whole, "wb") as out:
                out.write(struct.pack("<Q", len(header)) + header)
                for part in self.parts:
                    with open(part, "rb") as file:
                        shutil.copyfileobj(file, out, 1 << 20)
                out.flush()
                os.fsync(out.fileno())
            os.replace(whole, self.path)
        finally:
            if os.path.exists(whole):
                os.unlink(whole)
