"""The server as a whole: a real process, reached over HTTP."""
