"""What every LogSource promises, kept by the Kubernetes adapter on whole nodes: by kubelets."""

import pytest

from tests.contract.test_log_source import *  # noqa: F403 - the very same tests in another world

pytestmark = pytest.mark.cluster
