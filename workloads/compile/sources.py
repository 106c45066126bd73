"""Writes C files and their Makefile: sources.py FILES FUNCTIONS."""

import sys

files, functions = map(int, sys.argv[1:])
for file in range(files):
    with open(f"f{file}.c", "w") as out:
        out.write("#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n")
        for nr in range(functions):
            cases = "".join(f"case {n}: sum += v[i] * {n + nr} ^ (sum >> {n + 1}); break;\n" for n in range(4))
            out.write(
                f"long f{file}_{nr}(long *v, long n)\n{{\nlong sum = {nr};\n"
                f"for (long i = 0; i < n; i++) {{\nswitch (v[i] % 5) {{\n{cases}"
                'default: if (sum < 0) { printf("%ld\\n", sum); abort(); }\n}\n}\nreturn sum;\n}\n'
            )
objects = " ".join(f"f{file}.o" for file in range(files))
with open("main.c", "w") as out:
    out.write("".join(f"long f{file}_0(long *, long);\n" for file in range(files)))
    calls = " + ".join(f"f{file}_0(v, 4)" for file in range(files))
    out.write(f"int main(void)\n{{\n\tlong v[4] = {{1, 2, 3, 4}};\n\treturn ({calls}) == 0;\n}}\n")
with open("Makefile", "w") as out:
    out.write(f"CFLAGS = -O2\nprogram: main.o {objects}\n\t$(CC) -o $@ $^\n")
