"""Facts and words of the product as frozen data; imports only the standard library."""
