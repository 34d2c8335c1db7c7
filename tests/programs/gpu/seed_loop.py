"""The second experiment: a two-layer network with Adam, one step a loop, everything deleted one by one.

Prints what torch says after every statement; see seed_transfer.py for the argument.
"""
import json
import subprocess
import sys
import time

import torch

moments = open(sys.argv[1], "w") if len(sys.argv) > 1 else None
device = torch.device("cuda:0")
torch.manual_seed(0)


def card():
    query = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    return int(subprocess.run(query, capture_output=True, text=True, check=True).stdout.split()[0])


def show(step):
    torch.cuda.empty_cache()
    torch.cuda.synchronize()
    allocated, reserved = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    print(f"{step:32} allocated {allocated:>11} reserved {reserved:>11}", flush=True)
    if moments:
        line = {"step": step, "at_ns": time.monotonic_ns(), "allocated": allocated, "reserved": reserved, "card_mib": card()}
        print(json.dumps(line), file=moments, flush=True)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1024))

    def forward(self, x):
        return self.layers(x)


for loop in range(3):
    x_ = torch.randn(1024, 1024)
    x = x_.to(device)
    show(f"loop {loop}: x to device")
    y = torch.randn(1024, 1024).to(device)
    model = Net().to(device)
    show(f"loop {loop}: y, model to device")
    optimizer = torch.optim.Adam(model.parameters())
    loss = torch.nn.functional.mse_loss(model(x), y)
    show(f"loop {loop}: forward")
    loss.backward()
    show(f"loop {loop}: loss.backward")
    optimizer.step()
    show(f"loop {loop}: optimizer.step")
    del loss, x, y, model
    show(f"loop {loop}: del loss, x, y, model")
    del optimizer
    show(f"loop {loop}: del optimizer")
