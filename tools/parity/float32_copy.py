#!/usr/bin/env python3
"""Writes a copy of a GGUF file whose weights are float32: the same numbers, so an engine that computes
on it quantises nothing, its activations neither.

Usage: tools/parity/float32_copy.py MODEL.gguf COPY.gguf      needs the PyPI package gguf
"""
import sys

import gguf
import numpy as np
from gguf.quants import dequantize

# What the writer adds itself, or what would be untrue of the copy.
LEFT_OUT = {"general.architecture", "general.file_type", "general.quantization_version"}


def copy(source, target):
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, reader.fields["general.architecture"].contents())
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name in LEFT_OUT:
            continue
        kind = field.types[0]
        sub_kind = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(name, field.contents(), kind, sub_type=sub_kind)
    for tensor in reader.tensors:
        values = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        writer.add_tensor(tensor.name, values.reshape(tuple(reversed([int(n) for n in tensor.shape]))))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    copy(*sys.argv[1:])
