"""clusterlab: the laws of GPU clusters as small NumPy functions.

>>> from clusterlab import hardware, roofline
>>> from clusterlab.units import fmt
>>> h100 = hardware.accelerator("H100 SXM")
>>> fmt(roofline.ridge_point(h100.peak("bf16"), h100.hbm_bandwidth), "FLOP/byte", digits=4)
'295.2 FLOP/byte'
"""

__version__ = "0.1.0"
