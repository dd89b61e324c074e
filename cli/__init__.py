"""`dally`: the kubectl-style client; speaks HTTP and knows only the wire types."""
