"""What the objects of a model file are made of: the types that it may name, and their arrays.

Each type has the attributes that its predictions read, each with a rule:

    "C p"       an array of that shape, of finite numbers
    "k < p"     a vector of k whole numbers from 0 to p - 1
    "C p > 0"   numbers above 0; with >= at least 0
    ""          one number
    "C p | p"   either shape
    "C p ?"     the attribute may be None or missing

    "d of n p"  a list or dict of d of them
    "'a' | 'b'" either word

A name with dots leads into a dict or the fields of a record array, and through every item of a
list: ``posteriors_.a`` is the ``a`` of each posterior. Sizes that are letters are the same in all
attributes of an object:

| letter | size |
|---|---|
| p | features of the estimator, ``n_features_in_`` |
| C, R, D, Q | classes; rows of one against the rest (1 for two classes); C - 1; pairs of classes |
| V, G | voxels, and sites of the domain, of the object's own space, else of the mask |
| any other | fixed by the first attribute that has it |
| * | any size |

A fitted object has all attributes of its rules; other attributes hold plain finite numbers too,
save those of `TOLD`. The tests hold this list to what the models of voxprior really save.
"""

from __future__ import annotations

Rules = dict[str, str]

_SCALED: Rules = {"mean_": "p ?", "var_": "p >= 0 ?", "scale_": "p > 0 ?"}
_PROCESS: Rules = {
    "gram_means_": "g n",
    "gram_scale_": "g > 0",
    "gram_": "g n n",
    "X_fit_": "n p ?",
    "kernel_share_": "* | * *",
    "theta_": "* | * *",
}
_DOUBT: Rules = {"doubt_.strength": "t ?", "doubt_.prior": "C ?"}
_RELEVANCE: Rules = {
    "gram_means_": "g n ?",
    "gram_scale_": "g > 0 ?",
    "relevance_": "r < *",
    "coef_": "k r",
    "intercept_": "k",
    "variances_": "o v",
    "design_": "n r",
    "precisions_": "* of * *",
    "scans_": "r p ?",
    "mean_scan_": "p ?",
    "scan_means_": "r ?",
    "scan_norms_": "r ?",
    "column_means_": "r ?",
}

PARTS: dict[str, Rules] = {
    "sklearn.calibration.CalibratedClassifierCV": {},
    "sklearn.calibration._CalibratedClassifier": {},
    "sklearn.discriminant_analysis.LinearDiscriminantAnalysis": {
        "coef_": "R p",
        "intercept_": "R",
        "means_": "C p",
        "priors_": "C >= 0",
    },
    "sklearn.isotonic.IsotonicRegression": {"X_thresholds_": "k", "y_thresholds_": "k"},
    "sklearn.linear_model._logistic.LogisticRegression": {"coef_": "R p", "intercept_": "R"},
    "sklearn.linear_model._ridge.RidgeCV": {"coef_": "p"},
    "sklearn.naive_bayes.GaussianNB": {
        "theta_": "C p",
        "var_": "C p > 0",
        "class_prior_": "C >= 0",
        "class_count_": "C >= 0",
    },
    "sklearn.pipeline.Pipeline": {},
    "sklearn.preprocessing._data.StandardScaler": _SCALED,
    "sklearn.svm._classes.SVC": {
        "support_": "s < *",
        "support_vectors_": "s p",
        "_n_support": "C < *",
        "_dual_coef_": "D s",
        "_intercept_": "Q",
        "dual_coef_": "D s",
        "intercept_": "Q",
        "_probA": "0 | Q",
        "_probB": "0 | Q",
    },
    "voxprior.auto.classifier.AutoClassifier": {
        "class_prior_": "C >= 0",
        "n_effective_": "> 0",
        "nothing_weight_": ">= 0",
        "mean_": "p",
        "unit_": "> 0",
        "basis_": "b p",
        "dual_": "m b C",
        "offset_": "m C",
        "pattern_": "R p",
        "shrinkages_": "s",
        "log_weights_": "w",
        "weight_posterior_": "v s w >= 0",
        "member_weights_": "v s",
        "sharing_posterior_": "*",
    },
    "voxprior.auto.regressor.AutoRegressor": {
        "X_fit_": "n p",
        "voxel_mean_": "p",
        "voxel_scale_": "p > 0",
        "voxel_unit_": "> 0",
        "kernels_.vectors": "n n",
        "kernels_.values": "n",
        "kernels_.scale": "> 0",
        "kernels_.width": ">= 0",
        "degrees_of_freedom_": "> 0",
        "y_mean_": "",
        "n_eff_": "> 0",
        "mean_power_": ">= 0",
        "smallest_variance_": ">= 0",
        "dual_coef_": "k r n",
        "power_": "k r",
        "member_weights_": "k r",
        "weights_": "w h >= 0",
        "stretch_posterior_": "h",
    },
    "voxprior.blocks.scaling.VoxelScaler": _SCALED,
    "voxprior.decision.bayes.BayesDecision": {
        "costs_": "a C",
        "train_priors_": "C >= 0",
        "priors_": "C >= 0",
    },
    "voxprior.decision.combine.CombinedClassifier": {"class_prior_": "C >= 0", "weights_": "m"},
    "voxprior.decision.calibration.IsotonicCalibrated": {},
    "voxprior.decision.calibration.TemperatureCalibrated": {"temperature_": "> 0"},
    "voxprior.decoder.stock.ScanSpan": {"mean_": "p", "components_": "k p"},
    "voxprior.images.preparation.ScanPreparation": {"mean_": "p ?"},
    "voxprior.models.boosting.estimator.SpatialBoostingClassifier": {
        "stumps_.problem": "s < R",
        "stumps_.feature": "s < p",
        "stumps_.threshold": "s",
        "stumps_.sign": "s",
        "stumps_.weight": "s",
        "slope_": "> 0",
        "steps_.problem": "u < R",
        "steps_.iteration": "u",
        "steps_.stump": "u < *",
        "steps_.change": "u",
        "selection_losses_.loss": "l",
        "selection_losses_.radius": "l",
        "selection_losses_.regularization": "l",
        "importances_": "R *",
        "importance_": "*",
        "smoothed_": "*",
        "objective_": "* | R *",
    },
    "voxprior.models.fields.estimator.RandomFieldClassifier": {
        "class_prior_": "C >= 0",
        "ranking_": "p",
        "nodes_": "k < p",
        "center_": "k",
        "scale_": "k > 0",
        "coef_": "C k k",
        "intercept_": "C k",
        "noise_": "C k > 0",
        "threshold_": "C",
        "temperature_": "> 0",
    },
    "voxprior.models.gaussian.gp_classifier.GPClassifier": _PROCESS
    | _DOUBT
    | {
        "codes_": "n < C",
        "likelihood_": "'logistic' | 'probit'",
        "inference_": "'laplace' | 'ep'",
        "unseen_variance_": ">= 0",
        "posteriors_.a": "n | n C",
        "dual_coef_": "n R",
        "latent_": "n C",
        "gram_inverse_roots_": "g of n * ?",
    },
    "voxprior.models.gaussian.gp_regressor.GPRegressor": _PROCESS
    | {
        "targets_": "n",
        "y_mean_": "",
        "noise_": ">= 0",
        "posterior_.alpha": "n",
        "posterior_.cholesky": "n n",
        "dual_coef_": "n 1",
        "latent_": "n 1",
    },
    "voxprior.models.gaussian.rvm.RVMClassifier": _RELEVANCE | _DOUBT,
    "voxprior.models.gaussian.rvm.RVMRegressor": _RELEVANCE
    | {"y_mean_": "", "noise_": ">= 0", "interval_noise_": ">= 0"},
    "voxprior.models.network.estimator.InverseTreeClassifier": _DOUBT
    | {
        "class_prior_": "C >= 0",
        "cut_": "p | 1",
        "parents_": "d < p",
        "equivalents_": "d of * < p",
        "latent_": "n d",
        "latent_bias_": "d",
        "latent_weights_": "d of *",
        "configurations_": "j d",
        "table_": "j C >= 0",
        "unseen_": "C >= 0",
        "gain_": "p",
        "gain_given_parents_": "p",
    },
    "voxprior.models.noise.NoiseWhitening": {
        "center_": "V",
        "scale_": "V > 0",
        "components_": "k V",
        "variances_": "k >= 0",
    },
    "voxprior.models.sharing.estimator.FeatureSharingNB": {
        "theta_": "C p",
        "var_": "C p > 0",
        "temperature_": "> 0 ?",
        "degrees_": "> 0 ?",
        "mean_": "C p",
        "m2_": "C p >= 0",
        "class_count_": "C >= 0",
        "class_prior_": "C >= 0",
        "excerpt_": "e * ?",
        "excerpt_codes_": "e < C ?",
    },
    "voxprior.models.sharing.few_shot.TimeAverage": {},
    "voxprior.space.voxelspace.VoxelSpace": {
        "sites": "V < G",
        "affine": "4 4 ?",
        "points": "G 3 ?",
        "faces": "f 3 < G ?",
    },
    "voxprior.transfer.classifier.TransferClassifier": {
        "_center": "p",
        "_means": "C p",
        "_variances": "p >= 0",
        "_counts": "C < *",
    },
    "voxprior.transfer.levels.Lesson": {"shape": "C C", "slope": "C C", "offset": "C"},
    "voxprior.transfer.map_trust.MapLesson": {},
    "voxprior.transfer.maps.GroupMaps": {"mean": "C v", "spread": "v >= 0", "noise": "v >= 0"},
    "voxprior.transfer.prior.GroupPrior": {"sketches": "* of * *"},
    "voxprior.validation.covariates.CovariateRemoval": {
        "covariate_mean_": "q",
        "coef_": "q *",
    },
}

# What describes a model and predictions do not read, or what is infinite by its meaning.
TOLD = frozenset(
    {
        "alpha_",
        "best_score_",
        "evidence_path_",
        "left_out",
        "left_out_log_density_",
        "left_out_log_loss_",
        "left_out_log_score_",
        "left_out_r2_",
        "log_evidence_",
        "log_evidences_",
        "losses",
        "objective_",
        "r_eps_",
        "score_path_",
        "selection_losses_",
        "shrinkages_",
    }
)

# Counts that a prediction repeats something by.
MOST: dict[str, int] = {"n_restarts": 1000, "n_draws": 2**20, "degree": 1000}

# Attributes that hold training scans, or a part of each, one per row.
SCANS = ("X_fit_", "excerpt_", "scans_", "support_vectors_")
