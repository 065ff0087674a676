"""What a step must do: one module per class of work, each from records and numbers to kernels.

Nothing here knows how fast a GPU is. All quantities are those of one GPU; `c` prompt tokens and
`b` decodes are those of one attention rank (see `Parallelism.dp`).
"""
