"""Faults planted into the adapter to Kubernetes: for each failure mode K of the design that has a
protection in it, the protection is switched off.

K8, a crash between a commit and a call, has no one place that guards against it: kills at every
point (tests/kubernetes/test_kills.py) show that.
"""

from tests.mutations.planting import Mutation

ADAPTER = "scheduler/adapters/kubernetes"
WATCHING = "tests/kubernetes/test_watching_faults.py"
LAUNCHING = "tests/kubernetes/test_launching_faults.py"
PODS = "tests/kubernetes/test_pod_and_node_faults.py"
UNIT = "tests/unit/adapters/kubernetes"

KUBERNETES_MUTATIONS = (
    Mutation(
        what="K1: a watch may be silent for an hour",
        path=f"{ADAPTER}/watch.py",
        old="silence_s_max=self._times.silence_s_max",
        new="silence_s_max=3600.0",
        found_by=f"{WATCHING}::test_k1_a_watch_that_falls_silent_is_opened_again",
    ),
    Mutation(
        what="K2, K3: an expired version is watched on from",
        path=f"{ADAPTER}/watch.py",
        old="                version = 0 if is_lost else version\n",
        new="",
        found_by=f"{WATCHING}::test_k2_a_version_that_expired_is_answered_by_a_new_list",
    ),
    Mutation(
        what="K2: what fails is tried again at once",
        path=f"{ADAPTER}/watch.py",
        old="                self._closing.wait(self._backoff_s())\n",
        new="",
        found_by=f"{WATCHING}::test_k2_a_version_that_expires_again_and_again_makes_no_tight_loop",
    ),
    Mutation(
        what="K3: a watch that ends at once is opened again and again",
        path=f"{ADAPTER}/watch.py",
        old="        if not words and lasted <",
        new="        if not words and lasted < 0 <",
        found_by=f"{WATCHING}::test_k3_a_watch_that_ends_at_once_without_a_word_counts_as_expired",
    ),
    Mutation(
        what="K4: what was seen is seen anew",
        path=f"{ADAPTER}/cache.py",
        old="        if known is not None and version_of(known) >= version:\n"
        "            return []\n",
        new="",
        found_by=f"{UNIT}/test_cache.py::test_k4_events_that_are_told_again_change_nothing",
    ),
    Mutation(
        what="K4: what is gone comes back by an old event",
        path=f"{ADAPTER}/cache.py",
        old="        if self._gone.get(uid, -1) >= version:\n            return []\n",
        new="",
        found_by=f"{UNIT}/test_cache.py"
        "::test_k4_an_object_that_is_gone_does_not_come_back_by_an_old_event",
    ),
    Mutation(
        what="K5: what a list does not have is there as before",
        path=f"{ADAPTER}/watch.py",
        old="        for each in absent:\n",
        new="        for each in ():\n",
        found_by=f"{WATCHING}::test_k5_a_deletion_that_no_event_told_is_found_by_the_next_list",
    ),
    Mutation(
        what="K6: a pod just made is known only when a watch tells of it",
        path=f"{ADAPTER}/hands.py",
        old="                self.caches[gang.namespace].put(made)\n",
        new="                pass\n",
        found_by=f"{WATCHING}::test_k6_a_watch_that_lags_behind_makes_no_pod_twice",
    ),
    Mutation(
        what="K7: what is there already is a conflict, whosever it is",
        path=f"{ADAPTER}/calls.py",
        old="            if self._is_ours(found, attempt) and is_same(found):\n",
        new="            if False:\n",
        found_by=f"{LAUNCHING}::test_k7_a_creation_of_unknown_outcome_makes_one_object",
    ),
    Mutation(
        what="K7: what has the name is ours",
        path=f"{ADAPTER}/calls.py",
        old="            if self._is_ours(found, attempt) and is_same(found):\n",
        new="            if True:\n",
        found_by=f"{LAUNCHING}::test_k7_a_name_that_another_object_has_is_told_and_not_touched",
    ),
    Mutation(
        what="K9: the anchor of a gang that is over stays, and with it what comes late",
        path=f"{ADAPTER}/keeper.py",
        old="        self._calls.remove_anchor(gang.namespace, gang.attempt, gang.anchor)\n"
        "        self._drop(gang)\n\n    def _let_empty_go",
        new="        self._drop(gang)\n\n    def _let_empty_go",
        found_by=f"{LAUNCHING}::test_k9_a_pod_that_a_paused_leader_makes_late_never_runs",
    ),
    Mutation(
        what="K10: a list that is cut off is whole",
        path=f"{ADAPTER}/watch.py",
        old="        if expected is not None and len(found) < expected:\n",
        new="        if False:\n",
        found_by=f"{WATCHING}::test_k10_a_list_that_breaks_between_its_pages_loses_nothing",
    ),
    Mutation(
        what="K11: what one list does not have is gone",
        path=f"{ADAPTER}/watch.py",
        old="        if not self._resource.is_confirmed:\n",
        new="        if True:\n",
        found_by=f"{WATCHING}::test_k11_an_empty_list_takes_no_pod_away",
    ),
    Mutation(
        what="K12: an object is the same as long as its name is",
        path=f"{ADAPTER}/cache.py",
        old="        if known is not None and uid_of(known) != uid:\n",
        new="        if False:\n",
        found_by=f"{UNIT}/test_cache.py"
        "::test_k12_another_object_under_the_name_means_that_the_first_is_gone",
    ),
    Mutation(
        what="K13: a worker that was told to end has ended",
        path=f"{ADAPTER}/gang.py",
        old="        if rank in self.pods:\n            return self.pods[rank].report\n",
        new="        if rank in self.pods and self.kill_at is None:\n"
        "            return self.pods[rank].report\n",
        found_by=f"{PODS}::test_k13_a_pod_that_does_not_leave_keeps_its_gpus",
    ),
    Mutation(
        what="K14: an eviction counts by its exit code",
        path=f"{ADAPTER}/pods.py",
        old="    elif disruption := _disruption(pod):\n",
        new="    elif disruption := '':\n",
        found_by=f"{PODS}::test_k14_an_eviction_is_not_the_users_failure",
    ),
    Mutation(
        what="K15: the last report of an end holds",
        path=f"{ADAPTER}/gang.py",
        old="            self.last.setdefault(facts.rank, facts.report)\n",
        new="            self.last[facts.rank] = facts.report\n",
        found_by=f"{PODS}::test_k15_an_end_that_flips_afterwards_stays_as_it_was",
    ),
    Mutation(
        what="K16: a node that refuses pods is offered the next ones",
        path=f"{ADAPTER}/keeper.py",
        old='self._nodes.exclude(node, "AdmissionRejected", for_s=self._times.excluded_s)',
        new="pass",
        found_by=f"{PODS}::test_k16_a_kubelet_that_refuses_a_pod_is_left_alone_for_a_while",
    ),
    Mutation(
        what="K17: GPUs that vanish are believed at once",
        path=f"{ADAPTER}/nodes.py",
        old="        if now >= believed_at:\n",
        new="        if True:\n",
        found_by=f"{PODS}::test_k17_gpus_that_flap_draw_nobody_and_drive_nobody_away",
    ),
    Mutation(
        what="K18, K21: what is refused is tried again for ever",
        path=f"{ADAPTER}/calls.py",
        old="        except (Refused, Missing) as failure:\n",
        new="        except NotImplementedError as failure:\n",
        found_by=f"{LAUNCHING}::test_k21_a_namespace_that_is_gone_is_told",
    ),
    Mutation(
        what="K19: nobody waits when the API server asks for it",
        path=f"{ADAPTER}/client.py",
        old="            self._budget.note_throttled(failure.retry_after_s)\n",
        new="            pass\n",
        found_by=f"{LAUNCHING}::test_k19_a_storm_of_429_is_waited_out",
    ),
    Mutation(
        what="K20: a token is read once",
        path=f"{ADAPTER}/client.py",
        old="        if response.status == _UNAUTHORIZED:\n",
        new="        if False:\n",
        found_by=f"{LAUNCHING}::test_k20_a_token_that_was_changed_is_read_again",
    ),
    Mutation(
        what="K22: a machine that was replaced under its name is used at once",
        path=f"{ADAPTER}/nodes.py",
        old="        if known.replaced:\n",
        new="        if False:\n",
        found_by=f"{PODS}"
        "::test_k22_a_machine_replaced_under_its_name_waits_for_the_pods_of_the_old_one",
    ),
    Mutation(
        what="K23: pods are ours whosever they are",
        path=f"{ADAPTER}/cluster.py",
        old="        selector = selecting({names.INSTANCE: self._settings.render.instance})\n"
        "        return [\n",
        new="        selector = names.INSTANCE\n        return [\n",
        found_by=f"{PODS}::test_k23_two_installs_do_not_touch_each_others_gangs",
    ),
    Mutation(
        what="K24: a gang's description may be of any size",
        path=f"{ADAPTER}/manifests.py",
        old="    if size > ANCHOR_BYTES_MAX:\n",
        new="    if False:\n",
        found_by=f"{LAUNCHING}"
        "::test_k24_a_gang_too_large_for_its_anchor_is_refused_with_the_number",
    ),
    Mutation(
        what="K25: a finished worker whose pod is removed is made again",
        path=f"{ADAPTER}/gang.py",
        old="(r for r in ranks if r not in self.made and r not in self.last)",
        new="(r for r in ranks if r not in self.pods)",
        found_by=f"{PODS}::test_k25_finished_pods_that_somebody_removes_stay_finished",
    ),
    Mutation(
        what="K26: names are published when pods are ready",
        path=f"{ADAPTER}/manifests.py",
        old='        "publishNotReadyAddresses": True,\n',
        new="",
        found_by=f"{LAUNCHING}::test_k26_names_are_published_before_any_pod_is_there",
    ),
    Mutation(
        what="K27: an exit code hides that memory ran out",
        path=f"{ADAPTER}/pods.py",
        old='    if reason == "OOMKilled":\n',
        new="    if False:\n",
        found_by=f"{UNIT}/test_pods.py::test_k14_k27_an_end_has_its_reason_and_somebody_to_blame",
    ),
    Mutation(
        what="K28: a log is followed for ever, though nobody reads it any more",
        path=f"{ADAPTER}/log_tails.py",
        old="                is_kept = tail.is_for_the_end and idle_s < STOP_S_MAX\n",
        new="                is_kept = idle_s < STOP_S_MAX\n",
        found_by=f"{PODS}::test_k28_a_log_that_nobody_reads_any_more_is_not_followed",
    ),
    Mutation(
        what="K29: a connection that breaks ends the watching",
        path=f"{ADAPTER}/client.py",
        old="        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:\n"
        '            raise Unavailable(f"the stream broke off: {error}") from error\n',
        new="        except NotImplementedError as error:\n"
        '            raise Unavailable(f"the stream broke off: {error}") from error\n',
        found_by=f"{WATCHING}::test_k29_an_api_server_that_is_replaced_is_found_again",
        restarts_api_server=True,
    ),
    Mutation(
        what="K30: an end may come before its start",
        path=f"{ADAPTER}/pods.py",
        old="        finished = max(started, finished)  # Clocks go back.\n",
        new="        pass\n",
        found_by=f"{UNIT}/test_pods.py::test_k30_an_end_before_the_start_ends_at_the_start",
    ),
    Mutation(
        what="K31: what kube-scheduler can not place waits for ever",
        path=f"{ADAPTER}/pods.py",
        old='    if scheduled is None or text(scheduled, "reason") != "Unschedulable":\n',
        new="    if True:\n",
        found_by=f"{LAUNCHING}::test_k31_what_kube_scheduler_says_is_told_and_the_node_left_alone",
    ),
    Mutation(
        what="K32: another controller's gate is not named",
        path=f"{ADAPTER}/pods.py",
        old="    if gates:\n",
        new="    if False:\n",
        found_by=f"{UNIT}/test_pods.py"
        "::test_k32_a_gate_of_another_controller_is_named_and_nothing_is_deleted",
    ),
    Mutation(
        what="K31, K32: what keeps a gang from running is told to nobody",
        path="scheduler/control/moves.py",
        old="    return Move(gang=replace(gang, job=replace(gang.job, message=message)))\n",
        new="    return None\n",
        found_by="tests/kubernetes/test_held_back.py"
        "::test_k32_a_gate_of_another_controller_is_named_in_why_and_nothing_is_deleted",
    ),
    Mutation(
        what="K33: the first container decides, whosever it is",
        path=f"{ADAPTER}/pods.py",
        old='        if text(status, "name") == names.MAIN_CONTAINER:\n',
        new="        if True:\n",
        found_by=f"{UNIT}/test_pods.py"
        "::test_k33_a_pod_that_a_webhook_changed_is_still_ours_and_its_main_container_decides",
    ),
    Mutation(
        what="things are started and stopped although the database is older than the cluster",
        path="scheduler/control/loop.py",
        old="        if self._note_safe_mode():\n",
        new="        if self._note_safe_mode() and False:\n",
        found_by="tests/unit/control/test_safe_mode.py"
        "::test_in_safe_mode_nothing_is_started_and_every_wait_says_so",
    ),
    Mutation(
        what="what strays hold is given away",
        path="scheduler/control/stray_book.py",
        old="        self._live.note_strays(self._held(found.keys() | self._not_running))\n",
        new="",
        found_by="tests/unit/control/test_safe_mode.py"
        "::test_a_gang_that_is_merely_unknown_is_listed_and_halts_nothing",
    ),
    Mutation(
        what="one bad job shuts node after node",
        path=f"{ADAPTER}/suspicion.py",
        old="        if max(len(jobs), of_cluster) < self._rules.failures_min:\n",
        new="        if len(recent) < self._rules.failures_min:\n",
        found_by=f"{UNIT}/test_suspicion.py::test_a_node_is_suspect_by_its_failures",
    ),
)
