"""The REST API: wire types, mappings, endpoints; no decision is made here."""
