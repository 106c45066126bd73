"""What a recording lets us expect of a scheme: nothing is run."""
