"""SLVMEval: long-video pairs with known damage, to measure the judges of generated video."""
