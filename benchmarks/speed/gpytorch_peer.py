"""GPyTorch's exact Gaussian processes behind fit and predict, so that they can be raced."""

import gpytorch
import numpy as np
import torch
from gpytorch.kernels import LinearKernel
from gpytorch.likelihoods import DirichletClassificationLikelihood, GaussianLikelihood

STEPS = 100
# One thread, as every other contender has.
torch.set_num_threads(1)


class _Exact(gpytorch.models.ExactGP):
    def __init__(self, X, y, likelihood, n_outputs=1):
        shape = torch.Size([n_outputs]) if n_outputs > 1 else torch.Size()
        super().__init__(X, y, likelihood)
        self.mean_module = gpytorch.means.ConstantMean(batch_shape=shape)
        self.covar_module = LinearKernel(batch_shape=shape)

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def _climb(model, likelihood, X, y) -> None:
    """Adam on the marginal likelihood, GPyTorch's tutorial recipe."""
    model.train()
    likelihood.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = -objective(model(X), y).sum()
        loss.backward()
        optimizer.step()
    model.eval()
    likelihood.eval()


class _Rotated:
    """Scans as n coordinates with the same Gram matrix.

    GPyTorch's linear kernel of 80,000 voxels asks for 51 GB (a p x p matrix), so the Gram matrix
    is made for it first, within the time that is measured.
    """

    def _rotate(self, X):
        self.scans, self.scale = X, np.float32(np.sqrt(X.shape[1]))
        values, vectors = np.linalg.eigh(X @ X.T / self.scale**2)
        keep = values > 1e-5 * values[-1]
        self.root = vectors[:, keep] / np.sqrt(values[keep])
        return self._coordinates(X)

    def _coordinates(self, X):
        return torch.from_numpy((X @ self.scans.T / self.scale**2 @ self.root).astype(np.float32))


class TorchRegressor(_Rotated):
    """ExactGP with a linear kernel."""

    def fit(self, X, y):
        """Climb the marginal likelihood."""
        self.mean = float(np.mean(y))
        inputs = self._rotate(X)
        targets = torch.as_tensor(y - self.mean, dtype=torch.float32)
        likelihood = GaussianLikelihood()
        self.model = _Exact(inputs, targets, likelihood)
        _climb(self.model, likelihood, inputs, targets)
        return self

    def predict(self, X):
        """Posterior mean."""
        with torch.no_grad():
            found = self.model(self._coordinates(X)).mean
        return found.numpy() + self.mean


class TorchClassifier(_Rotated):
    """Dirichlet classification: exact regression on transformed labels, GPyTorch's fastest."""

    def fit(self, X, y):
        """Climb the marginal likelihood."""
        inputs = self._rotate(X)
        labels = torch.as_tensor(y, dtype=torch.long)
        likelihood = DirichletClassificationLikelihood(labels, learn_additional_noise=True)
        targets = likelihood.transformed_targets
        self.model = _Exact(inputs, targets, likelihood, n_outputs=likelihood.num_classes)
        _climb(self.model, likelihood, inputs, targets)
        return self

    def predict_proba(self, X):
        """Class probabilities from 256 draws."""
        with torch.no_grad():
            found = self.model(self._coordinates(X))
            torch.manual_seed(0)
            draws = found.sample(torch.Size([256])).exp()
            p = (draws / draws.sum(-2, keepdim=True)).mean(0)
        return p.numpy().T

    def predict(self, X):
        """Most probable class."""
        return self.predict_proba(X).argmax(axis=1)
