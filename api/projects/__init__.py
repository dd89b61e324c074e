"""Projects: whose jobs, and which queues they may use."""
