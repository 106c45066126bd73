"""The public Python interface: `tune`, `sweep`, `record`, `predict`, what loads them again, and what they return."""

from damoos.api.recordings import Predicted, load_recording, predict, record
from damoos.api.studies import RESULTS, EvaluatedStudy, TunedStudy, load_study, resume, study_config, tune, validate
from damoos.api.sweeps import TunedSweep, drive_sweep, load_sweep, sweep, sweep_config, tuning_config

__all__ = [
    "RESULTS",
    "EvaluatedStudy",
    "Predicted",
    "TunedStudy",
    "TunedSweep",
    "drive_sweep",
    "load_recording",
    "load_study",
    "load_sweep",
    "predict",
    "record",
    "resume",
    "study_config",
    "sweep",
    "sweep_config",
    "tune",
    "tuning_config",
    "validate",
]
