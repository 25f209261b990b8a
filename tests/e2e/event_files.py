"""Reads TensorBoard's event files; Python's standard library only."""
import struct


def crc32c(data):
    """Bit by bit, as RFC 3720 defines it; not as the program computes it."""
    remainder = 0xFFFFFFFF
    for byte in data:
        remainder ^= byte
        for _ in range(8):
            remainder = remainder >> 1 ^ (0x82F63B78 if remainder & 1 else 0)
    return remainder ^ 0xFFFFFFFF


def masked(data):
    checksum = crc32c(data)
    return ((checksum >> 15 | checksum << 17) + 0xA282EAD8) & 0xFFFFFFFF


def fields(message):
    """(number, value) of a Protocol Buffers message."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
    while at < len(message):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        else:
            size = {1: 8, 5: 4}.get(key & 7) or varint()
            yield key >> 3, message[at:at + size]
            at += size


def events(path):
    """(step, tag, value) of an event file, each record's checksums compared."""
    data, at, found = path.read_bytes(), 0, []
    while at < len(data):
        length = struct.unpack_from("<Q", data, at)[0]
        header, body = data[at:at + 8], data[at + 12:at + 12 + length]
        sums = struct.unpack_from("<I", data, at + 8)[0], struct.unpack_from("<I", data, at + 12 + length)[0]
        if sums != (masked(header), masked(body)):
            raise ValueError(f"{path.name}: checksum at byte {at}")
        at += 16 + length
        event = list(fields(body))
        step = next((value for number, value in event if number == 2), 0)
        for number, summary in event:
            if number == 3:
                found.append((step, "version", summary.decode()))
            if number == 5:
                for _, value in fields(summary):
                    parts = dict(fields(value))
                    found.append((step, parts[1].decode(), struct.unpack("<f", parts[2])[0]))
    return found
