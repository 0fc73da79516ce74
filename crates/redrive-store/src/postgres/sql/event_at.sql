SELECT seq, at FROM redrive.event WHERE seq = ANY ($1)
