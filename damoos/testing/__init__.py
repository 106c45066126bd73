"""For authors of plugins and damoos's own tests: contract suites, machines that are not there, guests as hosts."""
