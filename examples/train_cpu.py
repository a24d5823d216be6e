"""Train a small model with operators of opforge and with plain PyTorch, and compare the loss curves.

    python examples/train_cpu.py --plot losses.svg

The model has an embedding, a convolution along time, batch normalization, NSA compression and a bias for each expert.
On the CPU, the CPU twin computes the gradients. `--device npu` uses torch_npu and the installed package (not run).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch
from torch.nn import functional

BLOCK, STRIDE = 32, 16
TIME, BATCH, WORDS, WIDTH, EXPERTS = 64, 2, 40, 16, 4


class Model(torch.nn.Module):
    """A model of five layers; a subclass defines each layer."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Parameter(torch.randn(WORDS, WIDTH))
        self.kernel = torch.nn.Parameter(torch.randn(3, WIDTH, WIDTH) * 0.1)
        self.bias = torch.nn.Parameter(torch.zeros(WIDTH))
        self.scale = torch.nn.Parameter(torch.ones(WIDTH))
        self.shift = torch.nn.Parameter(torch.zeros(WIDTH))
        self.compress = torch.nn.Parameter(torch.randn(BLOCK, BATCH) * 0.1)
        self.experts = torch.nn.Parameter(torch.zeros(EXPERTS, WIDTH))
        self.last = torch.nn.Linear(WIDTH, 1)

    def forward(self, ids: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        """Return one number for each window and batch entry."""
        x = self.convolve(self.embed(ids))
        x = self.normalize(x.permute(1, 2, 0)).permute(2, 0, 1).relu()
        x = self.windows(x.to(torch.bfloat16).contiguous(), self.compress.to(torch.bfloat16)).float()
        return self.last(self.add_bias(x.reshape(-1, WIDTH), ends)).squeeze(1)


class Plain(Model):
    """The layers in plain PyTorch."""

    def embed(self, ids: torch.Tensor) -> torch.Tensor:
        """Look up rows of the table."""
        return functional.embedding(ids, self.table)

    def convolve(self, x: torch.Tensor) -> torch.Tensor:
        """Convolve along time; the gradient of torch.conv_tbc rejects strided tensors on the CPU."""
        rows = functional.conv1d(x.permute(1, 2, 0), self.kernel.permute(2, 1, 0), self.bias, padding=1)
        return rows.permute(2, 0, 1)

    def normalize(self, x: torch.Tensor) -> torch.Tensor:
        """Normalize each channel."""
        return functional.batch_norm(x, None, None, self.scale, self.shift, training=True)

    def windows(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """Sum the weighted rows of each window."""
        parts = x.float().unfold(0, BLOCK, STRIDE)
        return torch.einsum("ondw,wn->ond", parts, weight.float()).to(x.dtype)

    def add_bias(self, x: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        """Add the bias of the expert of each row."""
        return x + self.experts[torch.searchsorted(ends, torch.arange(len(x), device=x.device), right=True)]


class WithOperators(Model):
    """The layers with the operators of opforge."""

    def embed(self, ids: torch.Tensor) -> torch.Tensor:
        """Look up rows of the table."""
        return torch.ops.opforge.embedding(self.table, ids)

    def convolve(self, x: torch.Tensor) -> torch.Tensor:
        """Convolve along time."""
        return torch.ops.opforge.conv_tbc(x, self.kernel, self.bias, 1)

    def normalize(self, x: torch.Tensor) -> torch.Tensor:
        """Normalize each channel."""
        fixed = x.detach()
        invstd = (fixed.var((0, 2), unbiased=False) + 1e-5).rsqrt()
        count = torch.tensor([x.numel() // x.shape[1]], dtype=torch.int32, device=x.device)
        return torch.ops.opforge.batch_norm_elemt(x, self.scale, self.shift, fixed.mean((0, 2)), invstd, count)

    def windows(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """Sum the weighted rows of each window."""
        return torch.ops.opforge.nsa_compress(x, weight, None, BLOCK, STRIDE)

    def add_bias(self, x: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        """Add the bias of the expert of each row."""
        return torch.ops.opforge.grouped_bias_add(x, self.experts, ends)


def train(model: Model, device: str, steps: int) -> list[float]:
    """Return the loss of each step."""
    model = model.to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(0, WORDS, (TIME, BATCH), generator=generator).to(device)
    rows = ((TIME - BLOCK) // STRIDE + 1) * BATCH
    wanted = torch.randn(rows, generator=generator).to(device)
    ends = torch.arange(1, EXPERTS + 1, device=device) * rows // EXPERTS
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = functional.mse_loss(model(ids, ends), wanted)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def picture(curves: dict[str, list[float]]) -> str:
    """Return an SVG picture of loss curves."""
    highest = max(max(curve) for curve in curves.values())
    lines = []
    for number, (name, curve) in enumerate(curves.items()):
        width, dashes, color = ((5, "none", "#9ecae1"), (1.5, "6 4", "#b30000"))[number]
        places = [
            (60 + 520 * step / max(len(curve) - 1, 1), 260 - 220 * loss / highest) for step, loss in enumerate(curve)
        ]
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        style = f'fill="none" stroke="{color}" stroke-width="{width}" stroke-dasharray="{dashes}"'
        lines.append(f'<polyline points="{points}" {style}/>')
        lines.append(f'<line x1="380" x2="420" y1="{60 + 22 * number}" y2="{60 + 22 * number}" {style}/>')
        lines.append(f'<text x="430" y="{65 + 22 * number}">{name}</text>')
    axes = '<path d="M60 40V260H580" fill="none" stroke="black"/>'
    steps = max(len(curve) for curve in curves.values())
    labels = (
        f'<text x="55" y="45" text-anchor="end">{highest:.2f}</text><text x="55" y="264" text-anchor="end">0</text>'
        f'<text x="320" y="290" text-anchor="middle">{steps} steps</text><text x="60" y="28">loss</text>'
    )
    head = '<svg xmlns="http://www.w3.org/2000/svg" width="620" height="310" font-family="sans-serif" font-size="14">'
    background = '<rect width="620" height="310" fill="white"/>'
    return "\n".join([head, background, axes, labels, *lines, "</svg>", ""])


def main() -> int:
    """Train both models; return 1 if the curves differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--device", default="cpu", choices=("cpu", "npu"), help="default: cpu")
    parser.add_argument("--plot", type=Path, help="write a picture of both curves, SVG")
    given = parser.parse_args()
    if given.steps < 1:
        parser.error(f"--steps: got {given.steps}, expected a number of at least 1")
    if given.plot and not given.plot.absolute().parent.is_dir():
        parser.error(f"--plot: got '{given.plot}', expected a file in a folder that exists; create the folder")
    if given.device == "npu":
        try:
            import torch_npu  # noqa: F401  # registers the device
        except ImportError:
            parser.exit(3, "--device npu: torch_npu is missing; install it beside the CANN toolkit\n")
    import opforge.torch  # noqa: F401  # registers the operators

    curves = {}
    for name, kind in (("plain PyTorch", Plain), ("opforge", WithOperators)):
        torch.manual_seed(0)
        curves[name] = train(kind(), given.device, given.steps)
    plain, ours = curves.values()
    worst = max(abs(one - other) / max(abs(one), 0.01) for one, other in zip(plain, ours, strict=True))
    print(f"loss after {given.steps} steps: plain PyTorch {plain[-1]:.6f}, opforge {ours[-1]:.6f}")
    print(f"largest relative difference of the losses (of at least 0.01): {worst:.2e}, expected at most 5e-2")
    if given.plot:
        given.plot.write_text(picture(curves), encoding="utf-8")
    return int(worst > 5e-2)


if __name__ == "__main__":
    sys.exit(main())
