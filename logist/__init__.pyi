"""The names that `logist` exports, for type checkers; `__init__.py` has the same table."""

from logist.agents.function import AgentAnswer as AgentAnswer
from logist.agents.function import AgentFunction as AgentFunction
from logist.agents.function import AgentRequest as AgentRequest
from logist.api import Job as Job
from logist.api import Project as Project
from logist.core.model import Interaction as Interaction
from logist.core.model import JobSpec as JobSpec
from logist.core.model import Kind as Kind
from logist.core.model import State as State
from logist.core.model import Status as Status
from logist.core.model import Usage as Usage
from logist.errors import Busy as Busy
from logist.errors import Damaged as Damaged
from logist.errors import InvalidFile as InvalidFile
from logist.errors import LogistError as LogistError
from logist.errors import LowOnSpace as LowOnSpace
from logist.errors import ProviderError as ProviderError
from logist.errors import Refused as Refused
from logist.errors import ReplayDiffers as ReplayDiffers
from logist.errors import SetupFailed as SetupFailed
from logist.errors import Stopped as Stopped
from logist.errors import StorageError as StorageError
from logist.errors import UsageError as UsageError
from logist.jobs.archive.archive_replay import Replayed as Replayed
from logist.jobs.archive.archive_statistics import Gathered as Gathered
from logist.jobs.archive.fixture_export import ExportedFixture as ExportedFixture
from logist.jobs.base.job_reader import Verified as Verified
from logist.jobs.base.result import CommandResult as CommandResult
from logist.jobs.job_queue import EndedJob as EndedJob
from logist.jobs.steward.inbox import InboxItem as InboxItem
from logist.jobs.steward.job_merge import MergeResult as MergeResult
from logist.jobs.steward.job_update import UpdateResult as UpdateResult
from logist.jobs.steward.retention import GarbageCollection as GarbageCollection
from logist.jobs.steward.retention import RemovedFiles as RemovedFiles
from logist.jobs.steward.retention import SparedJob as SparedJob

__version__: str
