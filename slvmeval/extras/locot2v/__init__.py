"""The command on the bound of LoCoT2V-Bench's aesthetic quality."""
