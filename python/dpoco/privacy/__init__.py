"""The kernel: the code that must be right for an epsilon to be true.

Mechanism descriptions (`dpoco.privacy.mechanisms`) say what engines enforce and draw; losses
(`dpoco.privacy.losses`) bound how much that reveals about one change of the data. The kernel knows
no domain, loss function or learner, and imports only the standard library, NumPy and
``scipy.special``.
"""
