"""What finished studies say beside each other: configurations, kernels, the manual scheme and the tuned one."""
