"""All mutants by name."""

from tests.mutants import of_evaluation, of_integrity, of_methods, of_pipeline, of_report, of_training
from tests.named import gathered

MUTANTS = gathered(
    of_methods.MUTANTS,
    of_training.MUTANTS,
    of_evaluation.MUTANTS,
    of_pipeline.MUTANTS,
    of_integrity.MUTANTS,
    of_report.MUTANTS,
)
