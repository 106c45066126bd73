"""What pyproject.toml cannot say: beside the packages that are found, the data at the top of the repository."""

from setuptools import find_packages, setup

SHIPPED = ("machines", "schemes", "workloads")

setup(packages=[*find_packages(include=["damoos*"]), *(f"damoos.shipped.{name}" for name in SHIPPED)])
