"""The network model beside the points that were measured: reads shared/data/network."""
