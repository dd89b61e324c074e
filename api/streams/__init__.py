"""Open answers: watches and followed logs, fed by a few threads for any number of followers."""
