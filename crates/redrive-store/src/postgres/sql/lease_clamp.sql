-- A lease that outlasts its own length was written before the clock went back. One that expired long ago was missed by every
-- reaper: nobody was there, or the clock went forward, or ours is not theirs. Whoever lives has its length to say so.
UPDATE redrive.lease SET expires_at = $1 + lease_for_ms
WHERE expires_at > $1 + lease_for_ms OR expires_at < $1 - greatest(lease_for_ms, $2)
