"""For authors of plugins and for damoos's own tests: contract suites, and a machine that is not there."""
