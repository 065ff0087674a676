"""The Python face: the same questions as the command line, with keyword arguments and records.

Times are in seconds, sizes in bytes and tokens; texts such as "30ms", "8k" or "16GB/s" do as well.
"""
