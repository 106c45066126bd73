"""The program of `damoos.agent.regex`: matches what each line of its input asks for, and nothing else.

It is started from its source alone, so it imports nothing of damoos's.
"""

from __future__ import annotations

import json
import re
import resource
import signal
import sys

_MOST_BYTES = 512 << 20


def answer(regex: str, text: str, flags: int, limit_s: float) -> dict[str, str | int]:
    """How often an expression matches, and what its group matches the last time; or why it cannot be matched.

    A longer time of CPU than the limit ends this process by SIGPROF, wherever it is: the matcher itself looks for
    signals of Python's too rarely.
    """
    count, last = 0, None
    signal.setitimer(signal.ITIMER_PROF, limit_s)
    try:
        for match in re.finditer(regex, text, flags):
            count, last = count + 1, match[match.re.groups and 1]
    except (re.error, OverflowError, RecursionError, MemoryError) as error:
        return {"error": str(error) or f"it takes more than {_MOST_BYTES >> 20} MiB of memory"}
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return {"count": count, "last": last or ""}


def main() -> None:
    """Answer until there are no more lines."""
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_BYTES if hard < 0 else min(_MOST_BYTES, hard), hard))
    for line in sys.stdin:
        print(json.dumps(answer(*json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
