"""The core and its shell: domain, network model, engine, policies, ports, control, adapters."""
