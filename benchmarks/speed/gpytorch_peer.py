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


class TorchRegressor:
    """ExactGP with a linear kernel; scans divided by √p so that its unit start is sensible."""

    def fit(self, X, y):
        """Climb the marginal likelihood."""
        scale = np.sqrt(X.shape[1])
        self.scale, self.mean = scale, float(np.mean(y))
        inputs = torch.from_numpy(X / np.float32(scale))
        targets = torch.as_tensor(y - self.mean, dtype=torch.float32)
        likelihood = GaussianLikelihood()
        self.model = _Exact(inputs, targets, likelihood)
        _climb(self.model, likelihood, inputs, targets)
        return self

    def predict(self, X):
        """Posterior mean, or most probable class."""
        with torch.no_grad():
            found = self.model(torch.from_numpy(X / np.float32(self.scale))).mean
        return found.numpy() + self.mean


class TorchClassifier:
    """Dirichlet classification: exact regression on transformed labels, GPyTorch's fastest."""

    def fit(self, X, y):
        """Climb the marginal likelihood."""
        self.scale = np.sqrt(X.shape[1])
        inputs = torch.from_numpy(X / np.float32(self.scale))
        labels = torch.as_tensor(y, dtype=torch.long)
        likelihood = DirichletClassificationLikelihood(labels, learn_additional_noise=True)
        targets = likelihood.transformed_targets
        self.model = _Exact(inputs, targets, likelihood, n_outputs=likelihood.num_classes)
        _climb(self.model, likelihood, inputs, targets)
        return self

    def predict_proba(self, X):
        """Class probabilities from 256 draws."""
        with torch.no_grad():
            found = self.model(torch.from_numpy(X / np.float32(self.scale)))
            torch.manual_seed(0)
            draws = found.sample(torch.Size([256])).exp()
            p = (draws / draws.sum(-2, keepdim=True)).mean(0)
        return p.numpy().T

    def predict(self, X):
        """Posterior mean, or most probable class."""
        return self.predict_proba(X).argmax(axis=1)
