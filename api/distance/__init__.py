"""What distance costs jobs: sensitivity, known models, estimates."""
