# Training step peer (JAX): runs a round of steps per line of input and prints the milliseconds per step.
import sys, time
import numpy as np
import jax, jax.numpy as jnp

model = sys.argv[1]
features, window, batch, steps, rows = map(int, sys.argv[2:7])
rng = np.random.default_rng(1)
X = jnp.asarray(rng.standard_normal((rows, features), dtype=np.float32))
ends = np.arange(window - 1, rows)
Y = jnp.asarray((rng.random(len(ends)) > 0.5).astype(np.float32))
E = jnp.asarray(ends.astype(np.int32))
order = jnp.asarray(rng.permutation(len(ends)).astype(np.int32))


def dense(a, b):
    bound = (1.0 / a) ** 0.5
    return [jnp.asarray(rng.uniform(-bound, bound, (a, b)).astype(np.float32)), jnp.zeros((b,), jnp.float32)]


def norm(x, p):
    m = x.mean(-1, keepdims=True)
    v = ((x - m) ** 2).mean(-1, keepdims=True)
    return (x - m) / jnp.sqrt(v + 1e-5) * p[0] + p[1]


if model == "mlp":
    params = [dense(window * features, 128), dense(128, 64), dense(64, 1)]

    def forward(p, x):
        x = x.reshape(x.shape[0], -1)
        for w, b in p[:-1]:
            x = jax.nn.relu(x @ w + b)
        return (x @ p[-1][0] + p[-1][1])[:, 0]

else:
    W, H, L = 256, 8, 6
    ones = lambda: [jnp.ones((W,)), jnp.zeros((W,))]
    layer = lambda: [ones(), dense(W, 3 * W), dense(W, W), ones(), dense(W, 4 * W), dense(4 * W, W)]
    who = jnp.asarray(rng.uniform(-0.035, 0.035, (features, W)).astype(np.float32))
    params = [dense(window, W), who, [layer() for _ in range(L)], ones(), dense(W, 1), dense(W, 1)]

    def forward(p, x):
        n = x.shape[0]
        x = x.swapaxes(1, 2) @ p[0][0] + p[0][1] + p[1]
        for a, qkv, o, c, up, down in p[2]:
            q, k, v = jnp.split(norm(x, a) @ qkv[0] + qkv[1], 3, -1)
            heads = lambda t: t.reshape(n, features, H, W // H).swapaxes(1, 2)
            s = jax.nn.softmax(heads(q) @ heads(k).swapaxes(2, 3) / (W // H) ** 0.5, -1)
            x = x + (s @ heads(v)).swapaxes(1, 2).reshape(n, features, W) @ o[0] + o[1]
            x = x + jax.nn.gelu(norm(x, c) @ up[0] + up[1], approximate=False) @ down[0] + down[1]
        x = norm(x, p[3])
        w = jax.nn.softmax((x @ p[4][0] + p[4][1])[:, :, 0], -1)
        return (jnp.einsum("nf,nfw->nw", w, x) @ p[5][0] + p[5][1])[:, 0]


def loss(p, x, y):
    z = forward(p, x)
    return jnp.mean((1 - y) * z - jax.nn.log_sigmoid(z))


tree = jax.tree_util
zeros = tree.tree_map(jnp.zeros_like, params)


def one(state, at):
    p, m, v, t = state
    picks = jax.lax.dynamic_slice(order, (at,), (batch,))
    at_rows = E[picks][:, None] + jnp.arange(1 - window, 1)
    value, g = jax.value_and_grad(loss)(p, X[at_rows], Y[picks])
    n = jnp.sqrt(sum(jnp.sum(x * x) for x in tree.tree_leaves(g)))
    g = tree.tree_map(lambda x: x * jnp.minimum(1.0, 1.0 / n), g)
    t = t + 1
    m = tree.tree_map(lambda a, b: 0.9 * a + 0.1 * b, m, g)
    v = tree.tree_map(lambda a, b: 0.999 * a + 0.001 * b * b, v, g)
    c1, c2 = 1 - 0.9**t, 1 - 0.999**t
    step = lambda a, b, c: a * (1 - 1e-6) - 1e-4 * (b / c1) / (jnp.sqrt(c / c2) + 1e-8)
    return (tree.tree_map(step, p, m, v), m, v, t), value


one = jax.jit(one, donate_argnums=0)
state, at = (params, zeros, tree.tree_map(jnp.zeros_like, params), jnp.float32(0)), 0
print("JAX", jax.__version__, flush=True)
for line in sys.stdin:
    began = time.perf_counter()
    for _ in range(steps):
        if at + batch > len(ends):
            at = 0
        state, value = one(state, at)
        at += batch
    value.block_until_ready()
    print((time.perf_counter() - began) * 1e3 / steps, flush=True)
