SELECT timeline FROM redrive.store FOR UPDATE
