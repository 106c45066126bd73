"""Makes a repository in ./repository: repository.py FILES COMMITS. Each commit changes a line in some of the files."""

import random
import subprocess
import sys

files, commits = map(int, sys.argv[1:])
dice = random.Random(1)
subprocess.run(["git", "init", "-q", "-b", "main", "repository"], check=True)
texts = [[f"line {line} of {file}: {dice.random()}\n" for line in range(200)] for file in range(files)]
stream = []
for commit in range(commits):
    stream.append(f"commit refs/heads/main\ncommitter x <x@x> {commit} +0000\ndata 1\nx\n")
    for file in range(files) if commit == 0 else dice.sample(range(files), 20):
        texts[file][dice.randrange(200)] = f"changed in {commit}: {dice.random()}\n"
        body = "".join(texts[file])
        stream.append(f"M 100644 inline f{file}\ndata {len(body)}\n{body}\n")
importing = ["git", "-C", "repository", "fast-import", "--quiet"]
subprocess.run(importing, input="".join(stream), text=True, check=True)
