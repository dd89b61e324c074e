"""One folder per outside system; each implements ports and knows no other adapter."""
