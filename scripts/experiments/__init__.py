"""The experiments of scripts/experiment."""
