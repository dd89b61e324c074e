"""Who did what: the audit rows, for admins."""
