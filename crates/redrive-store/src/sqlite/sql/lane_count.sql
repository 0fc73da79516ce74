UPDATE lane SET ready = ready + ?2, leased = leased + ?3, dead = dead + ?4, succeeded = succeeded + ?5,
                cancelled = cancelled + ?6, discarded = discarded + ?7
WHERE id = ?1
