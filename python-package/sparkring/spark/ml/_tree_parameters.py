# SPDX-License-Identifier: Apache-2.0
"""Parameters that XGBoost's and LightGBM's interfaces have, but their training does not take here.

Each has a remedy: a Param of the estimator, a method of the model, or the framework itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparkring._core import InvalidError

if TYPE_CHECKING:
    from collections.abc import Container


def _names(remedies: dict[str, str]) -> dict[str, str]:
    return {name: remedy for remedy, names in remedies.items() for name in names.split()}


def _itself(framework: str) -> str:
    return (
        f"call {framework}.train() in a function of sparkring.spark.run(), with"
        f" comm.{framework}_config()"
    )


BOTH = {
    "pass rounds": "num_boost_round n_estimators num_trees",
    "set validation": "eval_set eval_group",
    "set labelCol": "label",
    "set outputCols": "prediction_col probability_col raw_prediction_col",
    "call network() of the model, and predict() of the result": (
        "pred_contrib_col output_margin validate_features iteration_range ntree_limit"
    ),
    "history of the model has the metrics of each round": "evals_result verbose_eval verbose",
    "pass the parameters by name": "kwargs arbitrary_params_dict params config",
}
XGBOOST = {
    "set validation": "evals eval_qid validation_indicator_col",
    "set weightCol": "weight sample_weight sample_weight_eval_set weight_col",
    "set baseMarginCol": "base_margin base_margin_eval_set base_margin_col",
    "set baseMarginCol to the margins of the model before": "xgb_model process_type refresh_leaf",
    "set qidCol": "group qid qid_col",
    "set inputCols": "features_col features_cols",
    "set labelCol": "label_col",
    "set numProc": "num_workers",
    "pass device": "use_gpu",
    "pass updater": "updater_seq",
    "pass verbosity": "silent",
    "call network() of the model, and get_score() of the result": "importance_type",
    "call repartition() of the DataFrame": "force_repartition repartition_random_shuffle",
    "each rank has rows of its own": "data_split_mode",
    "the ranks find each other": "coll_cfg launch_tracker_on_driver",
    "leave it out, as rows are dense": "enable_sparse_data_optim",
    _itself("xgboost"): "obj custom_metric callbacks label_lower_bound label_upper_bound",
}
LIGHTGBM = {
    "pass rounds": "num_iterations",
    "set numProc": "num_machines",
    "the ranks find each other": "machines machine_list_filename client",
    "each rank chooses a port": "local_listen_port",
    "each rank has rows of its own": "pre_partition",
    "the rows are those of the DataFrame": (
        "data header two_round save_binary parser_config_file precise_float_parser free_raw_data"
        " reference"
    ),
    "set validation": (
        "valid valid_sets valid_names eval_names eval_X eval_y eval_sample_weight"
        " eval_class_weight eval_init_score"
    ),
    "set labelCol": "label_column",
    "set weightCol": "weight weight_column sample_weight",
    "set classWeights": "class_weight",
    "set qidCol": "group group_column",
    "set inputCols": "ignore_column",
    "set baseMarginCol": "init_score",
    "set baseMarginCol to the margins of the model before": "input_model init_model",
    "pass metric": "eval_metric",
    "call network() of the model": "keep_training_booster",
    "history of the model has the metrics of each round": (
        "is_provide_training_metric metric_freq eval_train_metric"
    ),
    "call save() of the model, or network(), and save_model() of the result": (
        "output_model output_result snapshot_freq convert_model convert_model_language"
        " saved_feature_importance_type"
    ),
    "call network() of the model, and feature_importance() of the result": "importance_type",
    "call network() of the model, and refit() of the result": "task refit_decay_rate",
    "call network() of the model, and predict() of the result": (
        "start_iteration_predict num_iteration_predict predict_raw_score predict_leaf_index"
        " predict_contrib predict_disable_shape_check pred_early_stop pred_early_stop_freq"
        " pred_early_stop_margin"
    ),
    "use CrossValidator of pyspark.ml.tuning": (
        "folds nfold stratified shuffle return_cvbooster fpreproc"
    ),
    _itself("lightgbm"): "feval callbacks position",
}
REMEDIES = {
    "xgboost": {**_names(BOTH), **_names(XGBOOST)},
    "lightgbm": {**_names(BOTH), **_names(LIGHTGBM)},
}


def check(framework: str, name: str, given: str | None = None, params: Container[str] = ()) -> None:
    """Refuse a parameter that has a remedy, or that is a Param of the estimator."""
    remedy = REMEDIES[framework].get(name)
    if remedy is None and name in params:
        remedy = f"set {name} of the estimator"
    if remedy is not None:
        raise InvalidError(f"the parameter {given or name!r} has no effect here: {remedy}")


def refuse_ranks(size: int, reason: str, remedy: str) -> None:
    """Refuse several ranks, each of which would use its own rows where all rows count."""
    if size > 1:
        raise InvalidError(f"{reason}, and there are {size} ranks: set numProc to 1, or {remedy}")
