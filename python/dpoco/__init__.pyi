"""What checkers know of a package that imports on first use: the names of its `__all__`."""

from dpoco import accounting as accounting
from dpoco import adapters as adapters
from dpoco import audit as audit
from dpoco import bandits as bandits
from dpoco import datasets as datasets
from dpoco import domains as domains
from dpoco import environments as environments
from dpoco import errors as errors
from dpoco import evaluation as evaluation
from dpoco import experts as experts
from dpoco import frank_wolfe as frank_wolfe
from dpoco import journal as journal
from dpoco import learners as learners
from dpoco import local as local
from dpoco import losses as losses
from dpoco import mechanisms as mechanisms
from dpoco import noise as noise
from dpoco import oco as oco
from dpoco import plotting as plotting
from dpoco import published as published
from dpoco import random as random
from dpoco import samplers as samplers
from dpoco import scale as scale
from dpoco._choice import Choice as Choice
from dpoco._choice import choose as choose
from dpoco._encryption import EncryptionKey as EncryptionKey
from dpoco._model import Model as Model
from dpoco._participation import Participation as Participation
from dpoco._state import load as load
from dpoco._tickets import Ticket as Ticket
from dpoco.accounting import Budget as Budget
from dpoco.accounting import Guarantee as Guarantee
from dpoco.errors import BudgetExceeded as BudgetExceeded
from dpoco.errors import CalibrationError as CalibrationError
from dpoco.errors import DpocoError as DpocoError
from dpoco.errors import HorizonExceeded as HorizonExceeded
from dpoco.errors import JournalFenced as JournalFenced
from dpoco.errors import LargeDeltaWarning as LargeDeltaWarning
from dpoco.errors import NoiseDominatesWarning as NoiseDominatesWarning
from dpoco.errors import ReplayMismatch as ReplayMismatch
from dpoco.errors import RoundOrderError as RoundOrderError
from dpoco.errors import StateError as StateError
from dpoco.trace import RecordShares as RecordShares
from dpoco.trace import Trace as Trace

__version__: str
