"""What a person tries who trains two small models in a loop and wonders why the memory does not come back.

Model A is deleted whole. Model B's optimizer is kept, by a list that somebody forgot.
"""
import gc
import subprocess

import torch

device = torch.device("cuda", torch.cuda.device_count() - 1)
history = []


def show(statement):
    query = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits", "-i", str(device.index)]
    used = subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip()
    print(f"{statement:44} {used:>6} MiB in use", flush=True)


def train(loop, name, keep):
    x = torch.randn(1024, 2048).to(device)
    model = torch.nn.Sequential(torch.nn.Linear(2048, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 2048)).to(device)
    show(f"loop {loop} {name}: x, model.to(device)")
    optimizer = torch.optim.Adam(model.parameters())
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    show(f"loop {loop} {name}: forward, backward, step")
    if keep:
        history.append(optimizer)
    del x, model, optimizer, loss
    gc.collect()
    torch.cuda.empty_cache()
    show(f"loop {loop} {name}: all deleted, empty_cache")


for loop in range(3):
    train(loop, "A", keep=False)
    train(loop, "B", keep=True)
print(len(history), "optimizers are still in the history")
