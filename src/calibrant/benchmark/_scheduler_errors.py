"""What can go wrong with workers, apart from the jobs themselves."""

from calibrant._checks import InputError

__all__ = ["SchedulerError", "WorkerDiedError"]


class SchedulerError(InputError):
    """Workers cannot be reached or started. The text says why and what to do."""


class WorkerDiedError(RuntimeError):
    """A job took its worker down with it, again and again."""
