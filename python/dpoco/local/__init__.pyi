"""What checkers know of a package that imports on first use: the names of its `__all__`."""

from dpoco._divergences import kl_divergence as kl_divergence
from dpoco._divergences import total_variation as total_variation
from dpoco.local._client import ClientPool as ClientPool
from dpoco.local._client import DevicePredictor as DevicePredictor
from dpoco.local._client import LocalClient as LocalClient
from dpoco.local._hypotheses import Hypotheses as Hypotheses
from dpoco.local._hypotheses import Prediction as Prediction
from dpoco.local._learner import DistributionLearner as DistributionLearner
from dpoco.local._messages import Report as Report
from dpoco.local._messages import ReportBatch as ReportBatch
from dpoco.local._messages import RoundSpec as RoundSpec
from dpoco.local._queries import HadamardQuery as HadamardQuery
from dpoco.local._queries import LossQuery as LossQuery
from dpoco.local._queries import PublicCoins as PublicCoins
from dpoco.local._queries import ThresholdQuery as ThresholdQuery
from dpoco.local._randomizers import BitRandomizer as BitRandomizer
from dpoco.local._randomizers import SubsetRandomizer as SubsetRandomizer
from dpoco.local._selector import LocalHypothesisSelector as LocalHypothesisSelector
from dpoco.local._selector import MedianSelection as MedianSelection
from dpoco.local._selector import median_select as median_select
from dpoco.local._selector import required_users as required_users
from dpoco.local._simulate import LocalTrace as LocalTrace
from dpoco.local._simulate import simulate as simulate
