"""What a training script imports, in processes of its own."""
