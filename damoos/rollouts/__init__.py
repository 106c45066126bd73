"""A policy that goes into service on a fleet in steps, each of them proven beside machines that do not have it yet."""
