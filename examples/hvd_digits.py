# SPDX-License-Identifier: Apache-2.0
"""A script for Horovod: handwritten digits, a part of them on each rank.

For Horovod itself the import is ``import horovod.torch as hvd``, and nothing else differs.
"""

import argparse

import sparkring.torch as hvd
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class Net(nn.Module):
    """Two convolutions and two layers for images of 8 by 8."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, padding=1)
        self.conv2 = nn.Conv2d(8, 16, 3, padding=1)
        self.fc1 = nn.Linear(16 * 4 * 4, 64)
        self.fc2 = nn.Linear(64, 10)

    def forward(self, x):
        """Return the logarithms of the probabilities of the digits."""
        x = torch.relu(self.conv1(x))
        x = torch.relu(nn.functional.max_pool2d(self.conv2(x), 2))
        x = torch.relu(self.fc1(x.flatten(1)))
        return torch.log_softmax(self.fc2(x), 1)


def read_arguments():
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Train on handwritten digits.")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--lr", type=float, default=0.003)
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--fp16-allreduce", action="store_true")
    parser.add_argument("--use-adasum", action="store_true")
    return parser.parse_args()


def load():
    """Return the digits to train on and those to test."""
    x, y = load_digits(return_X_y=True)
    images = torch.tensor(x / 16, dtype=torch.float32).view(-1, 1, 8, 8)
    digits = TensorDataset(images, torch.tensor(y))
    generator = torch.Generator().manual_seed(1)
    return torch.utils.data.random_split(digits, [0.75, 0.25], generator=generator)


def train(model, optimizer, loader, sampler, epoch):
    """Train for one epoch."""
    model.train()
    sampler.set_epoch(epoch)
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.nll_loss(model(x), y).backward()
        optimizer.step()


def test(model, loader, sampler):
    """Return loss and accuracy, the averages of those of the ranks."""
    model.eval()
    loss = right = 0.0
    with torch.no_grad():
        for x, y in loader:
            output = model(x)
            loss += nn.functional.nll_loss(output, y, reduction="sum").item()
            right += (output.argmax(1) == y).sum().item()
    sums = torch.tensor([loss, right]) / len(sampler)
    return hvd.allreduce(sums, name="metrics").tolist()


def main():
    """Train, and print the accuracy on rank 0."""
    args = read_arguments()
    hvd.init()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)

    training, testing = load()
    sampler = DistributedSampler(training, num_replicas=hvd.size(), rank=hvd.rank())
    loader = DataLoader(training, batch_size=args.batch_size, sampler=sampler)
    test_sampler = DistributedSampler(
        testing, num_replicas=hvd.size(), rank=hvd.rank(), shuffle=False
    )
    test_loader = DataLoader(testing, batch_size=256, sampler=test_sampler)

    model = Net()
    scale = 1 if args.use_adasum else hvd.size()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr * scale)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    optimizer = hvd.DistributedOptimizer(
        optimizer,
        named_parameters=model.named_parameters(),
        compression=hvd.Compression.fp16 if args.fp16_allreduce else hvd.Compression.none,
        op=hvd.Adasum if args.use_adasum else hvd.Average,
    )

    for epoch in range(1, args.epochs + 1):
        train(model, optimizer, loader, sampler, epoch)
        loss, accuracy = test(model, test_loader, test_sampler)
        if hvd.rank() == 0:
            print(f"epoch {epoch}: loss {loss:.3f}, accuracy {accuracy:.1%}", flush=True)


if __name__ == "__main__":
    main()
