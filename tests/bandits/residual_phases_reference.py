"""ResidualPhases as its page prints it, in NumPy: one phase at a time, noise as an argument."""

from __future__ import annotations

import functools
import math

import numpy as np
import scipy

EDGES = 2.0 ** np.arange(-3.0, 2.5, 0.5)[:9]
Z, MARK, MEAN, RATIO, BETA, GROWTH, DAMPING = 0.5, 0.3, 0.2, 0.4, 2.0, 1.3, 0.25
GRID = 2.0 ** np.linspace(-4.0, 3.0, 120)


def ends(first, horizon, growth=GROWTH):
    """Return the last rounds of all phases."""
    found, n = [0], float(first)
    while found[-1] < horizon:
        found.append(min(horizon, found[-1] + math.floor(n)))
        n *= growth
    return found[1:]


def strategy(pushes):
    """Return C, with columns of norm 1."""
    lag = np.subtract.outer(np.arange(pushes), np.arange(pushes))
    matrix = np.where(lag >= 0, RATIO ** np.maximum(lag, 0.0), 0.0)
    return matrix / np.linalg.norm(matrix, axis=0)


@functools.cache
def triangle(d):
    """Return rows and columns of an upper triangle, and sqrt(2) off the diagonal."""
    rows, columns = np.triu_indices(d)
    return rows, columns, np.where(rows == columns, 1.0, math.sqrt(2.0))


def pack(x):
    """Return the upper triangle of x x', off the diagonal times sqrt(2)."""
    rows, columns, weights = triangle(len(x))
    return x[rows] * x[columns] * weights


def unpack(packed, d):
    """Return the matrix of a triangle."""
    rows, columns, weights = triangle(d)
    matrix = np.zeros((d, d))
    matrix[rows, columns] = packed / weights
    return matrix + matrix.T - np.diag(matrix.diagonal())


def shrunk(moments, sd, d, square):
    """Return a covariance of what stands out of the noise."""
    mean = np.trace(moments) / d
    level = min(max(mean, 0.05 * square / d), square / d)
    lam, v = np.linalg.eigh(moments - mean * np.eye(d))
    kept = np.sign(lam) * np.maximum(np.abs(lam) - sd * math.sqrt(2.0 * d), 0.0)
    return (v * np.maximum(level + kept, 0.02 * level)) @ v.T


def fitted_scale(counts, clip, fallback):
    """Return the scale of the residuals whose noisy histogram this is."""
    counts = np.maximum(counts, 0.0)
    if counts.sum() == 0.0:
        return fallback
    shares = np.cumsum(counts)[:9] / counts.sum()
    misfit = ((scipy.special.erf(EDGES / (GRID[:, None] * math.sqrt(2.0))) - shares) ** 2).sum(
        axis=1
    )
    return clip * GRID[np.argmin(misfit)]


class Reference:
    """The learner; `noise(k)` is added to what phase k = 1, 2, ... sums up."""

    def __init__(
        self, arms, d, *, horizon, first, sigma, draws, noise, coins, reward_bound,
        context_bound=1.0, parameter_bound=1.0, reward_noise=None, intercept=None,
        one_hot=0, any_law=False, half_life=None,
    ):  # fmt: skip
        self.arms, self.d, self.sigma, self.draws, self.noise = arms, d, sigma, draws, noise
        self.coins, self.B, self.S, self.Y = coins, context_bound, parameter_bound, reward_bound
        self.known, self.intercept, self.one_hot = reward_noise is not None, intercept, one_hot
        self.low, self.any_law, self.half_life = reward_noise or 0.0, any_law, half_life
        self.ends = ends(first, horizon, GROWTH if half_life is None else 1.0)
        self.C = strategy(max(len(self.ends) - 1, 1))
        self.theta, self.mean = np.zeros((arms, d)), np.zeros((arms, d))
        self.P = np.tile(np.eye(d) * self.S**2 / d, (arms, 1, 1))
        z0, self.zc = (0.2, 0.7) if self.known else (0.3, 1.0)
        self.beta = BETA
        if one_hot:
            self.beta = 1.0
        if one_hot and one_hot + (intercept is not None) == d:
            z0, self.zc = 1.0, 2.0
        self.cap = self.Y + self.S * self.B
        self.clip = max(z0 * self.Y, self.low)
        self.clips, self.past, self.k, self.t = [self.clip], [], 0, 0
        self.leaf = self.empty()

    def empty(self):
        triangle = self.d * (self.d + 1) // 2
        if self.any_law:
            matrices = np.zeros(self.arms * triangle + self.d)
            return np.zeros((self.arms, self.d)), matrices, np.zeros(10)
        return np.zeros((self.arms, self.d)), np.zeros(triangle), np.zeros(10)

    def scores(self, x):
        width = np.sqrt(np.einsum("ni,aij,nj->na", x, self.P, x))
        return x @ self.theta.T + self.beta * width

    def decide(self, x):
        if self.k == 0:
            return int(self.coins[self.t])
        return int(np.argmax(self.scores(x[None, :])[0]))

    def observe(self, arm, x, r):
        """End a round; r is None for a record that counts as zero."""
        if r is not None:
            r = min(max(r, -self.Y), self.Y)
            residual = r - x @ self.theta[arm]
            slope = min(max(residual, -self.clip), self.clip) / (self.clip * self.B)
            vectors, matrix, bins = self.leaf
            vectors[arm] += slope * x
            moments = math.sqrt(Z) / self.B**2 * pack(x)
            at = arm * len(moments) if self.any_law else 0
            matrix[at : at + len(moments)] += moments
            if self.any_law:
                matrix[-self.d :] += MEAN / self.B * x
            bins[int((abs(residual) / self.clip > EDGES).sum())] += MARK
        self.t += 1
        if self.t == self.ends[self.k] and self.k < len(self.ends) - 1:
            self.close()

    def moments(self, k, lengths):
        """Return the pooled second moments of contexts, and the covariance of synthetic ones."""
        C = self.C[:k, :k]
        u = C @ lengths
        packed = np.array([y[1] for y, *_ in self.past])
        if self.any_law:
            return self.normal(packed, lengths)
        M = unpack(u @ (C @ packed) / (u @ u), self.d) * self.B**2 / math.sqrt(Z)
        sd = self.sigma * self.B**2 / (math.sqrt(Z) * np.linalg.norm(u))
        d, b = self.d, self.intercept
        if self.one_hot:
            return self.categories(M, sd)
        if b is None:
            sigma = shrunk(M, sd, d, self.B**2)
            return sigma, self.draws @ np.linalg.cholesky(sigma + 1e-12 * np.eye(d)).T
        mean = M[:-1, -1] / b
        size = np.linalg.norm(b * mean)
        mean = mean * (max(0.0, 1.0 - (sd * math.sqrt((d - 1) / 2) / size) ** 2) if size else 0.0)
        inner = shrunk(M[:-1, :-1] - np.outer(mean, mean), sd, d - 1, self.B**2 - b**2)
        whole = np.empty((d, d))
        whole[:-1, :-1] = inner + np.outer(mean, mean)
        whole[-1, :-1] = whole[:-1, -1] = b * mean
        whole[-1, -1] = b**2
        root = np.linalg.cholesky(inner + 1e-12 * np.eye(d - 1))
        contexts = np.empty((len(self.draws), d))
        contexts[:, :-1] = mean + self.draws[:, : d - 1] @ root.T
        contexts[:, -1] = b
        return whole, contexts

    def normal(self, sums, lengths):
        """Return the same of sums of all arms' second moments, and of means."""
        k, d = len(lengths), self.d
        C = self.C[:k, :k]
        u = C @ lengths
        noise = self.sigma / np.linalg.norm(u)
        pooled = u @ (C @ sums) / (u @ u)
        mean = pooled[-d:] * self.B / MEAN
        edge = d * (noise * self.B / MEAN) ** 2
        mean = mean * max(0.0, 1.0 - edge / max(mean @ mean, 1e-300))
        mean *= min(1.0, self.B / max(np.linalg.norm(mean), 1e-300))
        M = unpack(pooled[:-d].reshape(self.arms, -1).sum(axis=0), d) * self.B**2 / math.sqrt(Z)
        sd = noise * math.sqrt(self.arms / Z) * self.B**2
        square = max(self.B**2 - mean @ mean, 1e-3 * self.B**2)
        law = shrunk(M - np.outer(mean, mean), sd, d, square)
        root = np.linalg.cholesky(law + 1e-12 * np.eye(d) * self.B**2)
        return law + np.outer(mean, mean), mean + self.draws @ root.T

    def corrected(self, G, packed):
        """Return arms' second moments, moved towards what was released of them."""
        k, d = self.k, self.d
        # Of noise that is white after C, in the last phase.
        noise = self.sigma * np.linalg.norm(np.linalg.inv(self.C[:k, :k])[-1])
        out = []
        for a, own in enumerate(packed[:-d].reshape(self.arms, -1)):
            gap = (unpack(own, d) * self.B**2 - math.sqrt(Z) * G[a]) / math.sqrt(Z)
            edge = len(own) * (noise * self.B**2) ** 2 / Z
            kept = max(0.0, 1.0 - edge / max(float((gap**2).sum()), 1e-300))
            lam, v = np.linalg.eigh(G[a] + kept * gap)
            out.append((v * np.maximum(lam, 0.0)) @ v.T)
        return np.array(out)

    def categories(self, M, sd):
        """Return the same where contexts begin with one-hot entries."""
        h, b = self.one_hot, self.intercept or 0.0
        r = self.d - h - (b > 0.0)
        shares = np.maximum(np.diag(M)[:h], 0.0)
        v = math.sqrt(min(shares.sum(), self.B**2))
        shares = shares / shares.sum()
        law, centres = M[h : h + r, h : h + r].copy(), np.zeros((h, self.d))
        for c in range(h):
            joint, edge = M[h : h + r, c], sd * math.sqrt(r / 2)
            size = np.linalg.norm(joint)
            if size > edge and shares[c] > 0.0:
                centres[c, h : h + r] = joint * (1.0 - (edge / size) ** 2) / (v * shares[c])
                law -= shares[c] * np.outer(centres[c, h : h + r], centres[c, h : h + r])
            centres[c, c] = v
        if b:
            centres[:, -1] = b
        whole = np.einsum("c,ci,cj->ij", shares, centres, centres)
        places = (np.arange(len(self.draws)) + 0.5) / len(self.draws)
        contexts = centres[np.minimum(np.searchsorted(np.cumsum(shares), places), h - 1)]
        if r:
            law = shrunk(law, sd, r, max(self.B**2 - v**2 - b**2, 1e-6 * self.B**2))
            whole[h : h + r, h : h + r] += law
            root = np.linalg.cholesky(law + 1e-12 * np.eye(r))
            contexts[:, h : h + r] += self.draws[:, :r] @ root.T
        return whole, contexts

    def close(self):
        """End a phase: from here on only what was released is read."""
        self.k = k = self.k + 1
        lengths = np.diff([0, *self.ends[:k]]).astype(float)
        noisy = tuple(own + more for own, more in zip(self.leaf, self.noise(k), strict=True))
        self.leaf = self.empty()
        self.past.append((noisy, None, None, self.theta.copy()))
        whole, contexts = self.moments(k, lengths)
        n, c, B = lengths[-1], self.clip, self.B
        norms = np.linalg.norm(contexts, axis=1)
        contexts = contexts * np.minimum(1.0, B / np.maximum(norms, 1e-300))[:, None]
        if k == 1:
            G = np.tile(whole * n / self.arms, (self.arms, 1, 1))
        else:
            chosen = np.argmax(self.scores(contexts), axis=1)
            G = np.array([
                n / len(contexts) * contexts[chosen == a].T @ contexts[chosen == a]
                for a in range(self.arms)
            ])  # fmt: skip
        if self.any_law:
            G = self.corrected(G, noisy[1])
        sc = fitted_scale(noisy[2] / MARK, c, c / self.zc)
        kappa = math.erf(c / (sc * math.sqrt(2.0)))
        spread = np.einsum("aij,aji->", self.P, G) / n
        tau2 = max(sc**2 - spread, 0.0) if k > 1 else 0.0
        H, W = kappa * G / (c * B), (min(sc, c) / (c * B)) ** 2 * G
        self.past[-1] = (noisy, H, W, self.theta.copy())
        row = self.C[k - 1]
        for a in range(self.arms):
            theta, P = self.mean[a], self.P[a]
            total = sum(row[i] * h[a] for i, (_, h, _, _) in enumerate(self.past))
            gap = sum(
                row[i] * (y[0][a] + h[a] @ (own[a] - theta))
                for i, (y, h, _, own) in enumerate(self.past)
            )
            V = self.sigma**2 * np.eye(self.d) + sum(
                row[i] ** 2 * w[a] for i, (_, _, w, _) in enumerate(self.past)
            )
            gain = P @ total @ np.linalg.inv(total @ P @ total + V)
            new = theta + gain @ gap
            kept = min(1.0, self.S / max(np.linalg.norm(new), 1e-300))
            played = new * kept
            if not self.any_law:
                new = played
            step = new - theta
            P = P - gain @ total @ P
            self.P[a] = (P + P.T) / 2 + DAMPING * np.outer(step, step)
            self.theta[a], self.mean[a] = played, new
        if self.half_life is not None:
            kept = 0.5 ** (n / self.half_life)
            self.P = kept * self.P + (1.0 - kept) * np.eye(self.d) * self.S**2 / self.d
        v = np.einsum("aij,aji->", self.P, G) / n
        zk = min(3.0, self.zc * math.sqrt(self.ends[k - 1] / self.ends[0]))
        wanted = max(zk * math.sqrt(v + tau2), c / 2, 1e-3 * self.Y)
        self.clip = max(min(self.cap, 2 * c, wanted), self.low)
        self.clips.append(self.clip)

    def run(self, contexts, rewards):
        """Play a world; return the arms."""
        chosen = []
        for x, r in zip(contexts, rewards, strict=True):
            chosen.append(self.decide(x))
            self.observe(chosen[-1], x, r[chosen[-1]])
        return np.array(chosen)
