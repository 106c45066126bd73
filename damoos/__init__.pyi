# What type checkers and editors see of the names that __init__.py imports late.
from damoos.api import load_recording as load_recording
from damoos.api import load_study as load_study
from damoos.api import load_sweep as load_sweep
from damoos.api import predict as predict
from damoos.api import record as record
from damoos.api import sweep as sweep
from damoos.api import tune as tune
from damoos.damon.scheme import Scheme as Scheme
from damoos.model.space import Space as Space
from damoos.sidebyside import compare as compare
from damoos.sidebyside import evaluate as evaluate

__version__: str
__all__: list[str]
