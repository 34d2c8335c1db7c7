"""The first experiment: a tensor goes to the GPU, is deleted, and the cache is emptied.

Prints what torch says after every statement. With a file name as argument the moment of each line (CLOCK_MONOTONIC, ns)
and what the card says go there: they differ from run to run, and must not differ by who is watching.
"""
import gc
import json
import subprocess
import sys
import time

import torch

moments = open(sys.argv[1], "w") if len(sys.argv) > 1 else None


def card():
    query = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    return int(subprocess.run(query, capture_output=True, text=True, check=True).stdout.split()[0])


def show(step):
    allocated, reserved = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    print(f"{step:32} allocated {allocated:>11} reserved {reserved:>11}", flush=True)
    if moments:
        line = {"step": step, "at_ns": time.monotonic_ns(), "allocated": allocated, "reserved": reserved, "card_mib": card()}
        print(json.dumps(line), file=moments, flush=True)


for rows in (1024, 20 * 1024):
    x = torch.zeros(1024, rows).to("cuda:0")
    show(f"x.to(), {rows * 4096 >> 20} MiB")
    del x
    show("del x")
    gc.collect()
    show("gc.collect()")
    torch.cuda.empty_cache()
    show("empty_cache()")
