"""BeST: selecting the segments that a ranker of long documents is trained on.

Kim, Rahimi, Bonab, Allan, "Query-driven Segment Selection for Ranking Long Documents", CIKM 2021
(arXiv 2109.04611).
"""
