"""Reports that workers send while they run."""
