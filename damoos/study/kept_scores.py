"""What a study stores of a user's score file, so that nobody has to run the file to look at the study."""

from __future__ import annotations

from contextlib import suppress

from damoos.errors import DamoosError
from damoos.study.frontier import frontier
from damoos.study.study import SCORES, Study


def keep(study: Study, is_finished: bool = False) -> None:
    """Store the declarations of the study's score file, and the scores of its runs.

    Nothing is stored of a score that reads no file.

    Parameters
    ----------
    study : Study
        Its score file is loaded.
    is_finished : bool
        Whether scores are stored for all that a finished study shows, too: its validation, its frontier.
    """
    if not study.config.scores_by_file:
        return
    looked_at, noted = study.noted()
    runs = looked_at.runs()
    looked_at.trials_of(runs)
    if is_finished:
        for view in (looked_at.trials, looked_at.arms, lambda: looked_at.evidence(runs), lambda: frontier(looked_at)):
            with suppress(DamoosError):  # whoever looks at the study gets the same answer
                view()
    study.record.set(SCORES, noted.to_json())
