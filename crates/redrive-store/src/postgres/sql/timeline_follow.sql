UPDATE redrive.store SET timeline = $1, timeline_since = redrive.now_ms()
