"""What a training script may import: progress, checkpoint notice, graceful stop."""
