"""What the docs say of commands, files and functions, made from the code, so that it is said once."""
