"""A database that is one file, mapped into memory: pages.py fill KEYS GETS makes it, pages.py ask KEYS GETS reads it.

All values are read once, in order, as at the start of a service. Then a tenth of them is asked for at random.
"""

import json
import random
import sys
import time

import lmdb

VALUE_BYTES = 1024
action, keys, gets = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
words = [b"%012d" % number for number in range(keys)]
chance = random.Random(1)
base = lmdb.open("base", map_size=keys * 4 * VALUE_BYTES + (16 << 20), readonly=action == "ask", lock=False)
if action == "fill":
    with base.begin(write=True) as writing:
        for word in words:
            writing.put(word, chance.randbytes(VALUE_BYTES), append=True)
else:
    with base.begin() as reading:
        total = sum(value[0] for _, value in reading.cursor())
        hot = words[: keys // 10]
        asked = [chance.choice(hot) for _ in hot]
        begun = time.monotonic()
        for number in range(gets):
            total += reading.get(asked[number % len(asked)])[0]
        seconds = time.monotonic() - begun
    print(json.dumps({"roi_s": seconds, "gets_per_s": gets / seconds, "total": total}))
base.close()
