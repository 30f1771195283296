"""The one error that users are meant to see."""


class EspalierError(Exception):
    """Something the user can mend: one line that names the file or key, and the remedy.

    The command line prints it without a traceback and exits with status 1; every other
    exception is a defect and keeps its traceback.
    """
