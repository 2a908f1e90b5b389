"""The kernel: what must be believed for an epsilon to be true.

Mechanism descriptions (`dpoco.privacy.mechanisms`) say what engines enforce and draw; losses
(`dpoco.privacy.losses`) are upper bounds on what that tells about one change of the data. Nothing
here knows a domain, a loss function or a learner, and nothing but the standard library, NumPy and
``scipy.special`` is imported.
"""
