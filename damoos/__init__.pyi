# What type checkers and editors see of the names that __init__.py imports late.
from damoos.api import load_recording as load_recording
from damoos.api import load_study as load_study
from damoos.api import load_sweep as load_sweep
from damoos.api import predict as predict
from damoos.api import record as record
from damoos.api import resume as resume
from damoos.api import sweep as sweep
from damoos.api import tune as tune
from damoos.api import validate as validate
from damoos.api.comparisons import compare as compare
from damoos.api.comparisons import evaluate as evaluate
from damoos.api.comparisons import league as league
from damoos.api.plots import plot_compare as plot_compare
from damoos.api.plots import plot_configs as plot_configs
from damoos.api.plots import plot_curves as plot_curves
from damoos.api.plots import plot_heatmap as plot_heatmap
from damoos.api.plots import plot_idle_time as plot_idle_time
from damoos.api.plots import plot_limits as plot_limits
from damoos.api.plots import plot_memory as plot_memory
from damoos.api.plots import plot_prediction as plot_prediction
from damoos.api.plots import plot_recency as plot_recency
from damoos.api.plots import plot_regions as plot_regions
from damoos.api.plots import plot_study as plot_study
from damoos.api.plots import plot_sweep as plot_sweep
from damoos.api.plots import plot_wss as plot_wss
from damoos.api.service import apply as apply
from damoos.api.service import load_rollout as load_rollout
from damoos.api.service import rollout as rollout
from damoos.damon.scheme import Scheme as Scheme
from damoos.model.space import Space as Space
from damoos.study.progress import Progress as Progress

__version__: str
__all__: list[str]
