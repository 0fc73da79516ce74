UPDATE redrive.lane SET ready = 0, leased = 0, dead = 0, succeeded = 0, cancelled = 0, discarded = 0
