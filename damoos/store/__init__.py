"""Where studies live: an Optuna storage, and the raw data of each run beside it."""
