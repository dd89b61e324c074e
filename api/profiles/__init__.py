"""Model profiles: those that ship with the service and the projects' own."""
