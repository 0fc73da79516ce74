SELECT seq, detail FROM redrive.event WHERE seq > $1 ORDER BY seq LIMIT $2
