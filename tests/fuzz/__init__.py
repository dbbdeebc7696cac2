"""A fuzzer: mutates samples, reads them as the commands do, and checks what becomes of every record and line."""
