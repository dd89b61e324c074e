"""The policy's knobs, of the cluster and of one queue: read by all, changed live by admins."""
