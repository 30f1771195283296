"""Dual-weight sparse retrieval: BM25 and learned weights in one index, skipped under both.

Qiao, Yang, Lin, Yang: Dual Skipping Guidance for Document Retrieval with Learned Sparse
Representations, SIGIR 2022, arXiv 2204.11154.
"""
