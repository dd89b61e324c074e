"""Who is calling, and what a request may use."""
