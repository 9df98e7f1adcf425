# Training step peer (PyTorch): runs a round of steps per line of input and prints the milliseconds per step.
import sys, time
import torch
from torch import nn

model = sys.argv[1]
features, window, batch, steps, rows = map(int, sys.argv[2:7])
torch.manual_seed(1)
X = torch.randn(rows, features)
E = torch.arange(window - 1, rows)
Y = (torch.rand(len(E)) > 0.5).float()
order = torch.randperm(len(E))
back = torch.arange(1 - window, 1)


class Transformer(nn.Module):
    def __init__(self, width=256, heads=8, layers=6):
        super().__init__()
        self.value = nn.Linear(window, width)
        self.who = nn.Parameter(torch.rand(features, width) * 0.07 - 0.035)
        layer = lambda: nn.TransformerEncoderLayer(
            width, heads, 4 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.ModuleList(layer() for _ in range(layers))
        self.last, self.listen, self.out = nn.LayerNorm(width), nn.Linear(width, 1), nn.Linear(width, 1)

    def forward(self, x):
        x = self.value(x.transpose(1, 2)) + self.who
        for layer in self.layers:
            x = layer(x)
        x = self.last(x)
        w = self.listen(x).softmax(1)
        return self.out((w * x).sum(1))


if model == "mlp":
    net = nn.Sequential(
        nn.Flatten(), nn.Linear(window * features, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 1)
    )
else:
    net = Transformer()
optimiser = torch.optim.AdamW(net.parameters(), lr=1e-4, weight_decay=1e-2)
judge = nn.BCEWithLogitsLoss()
print("PyTorch", torch.__version__, flush=True)
at = 0
for line in sys.stdin:
    began = time.perf_counter()
    for _ in range(steps):
        if at + batch > len(E):
            at = 0
        picks = order[at : at + batch]
        at += batch
        loss = judge(net(X[E[picks][:, None] + back])[:, 0], Y[picks])
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimiser.step()
    print((time.perf_counter() - began) * 1e3 / steps, flush=True)
