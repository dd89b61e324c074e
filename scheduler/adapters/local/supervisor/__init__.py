"""The supervisor of one worker: a small process of its own that outlives the server.

It claims the worker's folder, waits at the barrier, runs the command and writes down how that
ended. All it is told and all it tells are files in the folder, so that any server, started before
or after it, sees the same. A folder is claimed once in its life: a second supervisor, however it
came to be, leaves at once. So no worker is ever doubled.

Standard library only, and little of it, and nothing else of ours: 64 of these start at once.
"""
