"""The core and its shell: domain words, network model, engine, policies, ports, control loop, adapters."""
