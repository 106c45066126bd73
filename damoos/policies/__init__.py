"""What is applied to the machine while the workload runs."""
